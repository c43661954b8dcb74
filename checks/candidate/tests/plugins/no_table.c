/* A library that is no plug-in. */
int answer(void) { return 42; }
