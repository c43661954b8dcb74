/* Dies while it is loaded. */
__attribute__((constructor)) static void fall(void) { *(volatile int *)0 = 1; }
