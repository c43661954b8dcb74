"""python -m assay_worker --serve CONTROL_FD REQUEST_FD REPLY_FD module:function"""

import faulthandler
import os
import select
import socket
import sys
import threading

from .function import Function
from .server import Server, describe_exception


def die_with_parent(control):
    """Ends the process when the parent is gone, whatever the function is doing."""

    def watch():
        poller = select.poll()
        poller.register(control.fileno(), 0)  # POLLHUP is always reported
        poller.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments):
    if len(arguments) != 5 or arguments[0] != "--serve":
        sys.exit("assay_worker is started by `assay check --candidate python:module:function`\n"
                 f"usage: {__doc__}")
    control = socket.socket(fileno=int(arguments[1]))
    die_with_parent(control)
    # A crash names its Python line, where neither the kernel's output nor a closed stderr hides it.
    faulthandler.enable(file=control, all_threads=False)
    function, refusal = None, ""
    try:
        function = Function.load(arguments[4])
    except BaseException as error:  # sys.exit while importing, too
        refusal = f"{arguments[4]}: {describe_exception(error)}"
    Server(control, int(arguments[2]), int(arguments[3]), function, refusal).serve()
    # Not through the usual shutdown: threads of a framework may hang there.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
