/* Dies while it is loaded. Raised, not by a wild store: a compiler may turn that into another trap. */
#include <signal.h>

__attribute__((constructor)) static void fall(void) { raise(SIGSEGV); }
