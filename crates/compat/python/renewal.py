"""A session from before the node's certificate was renewed, and others that come later; told by lines what to do.

`old`            the first session's connections, the same as at the beginning, answer: OLD
`new AUTHORITY`  a session that trusts this authority: NEW and its certificate's SHA-256, or REFUSED and why
`end`
"""

import hashlib
import os
import ssl
import sys

import link
from cassandra.cluster import NoHostAvailable
from cassandra.concurrent import execute_concurrent_with_args


def connect(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    cluster = link.open_cluster(ssl_context=context, ssl_options={"server_hostname": link.HOST})
    try:
        return cluster, cluster.connect()
    except Exception:
        cluster.shutdown()
        raise


def sockets(cluster, session):
    """Those of the control connection and of the session's pools."""
    connections = [cluster.control_connection._connection]
    connections += [pool._connection for pool in session.get_pools()]
    return [connection._socket for connection in connections]


def fingerprint(cluster, session):
    """SHA-256 of the certificate that every connection was shown."""
    shown = {hashlib.sha256(socket.getpeercert(binary_form=True)).hexdigest() for socket in sockets(cluster, session)}
    assert len(shown) == 1, f"connections of one session were shown {shown}"
    return shown.pop()


def why(error):
    cause = next(iter(error.errors.values()))
    return "certificate verify failed" if "certificate verify failed" in str(cause) else repr(cause)


def main():
    cluster, session = connect(os.environ["NODE_AUTHORITY"])
    first = [id(socket) for socket in sockets(cluster, session)]
    print("OPEN", fingerprint(cluster, session), flush=True)
    select = session.prepare("SELECT key FROM system.local WHERE key = ?")
    for line in sys.stdin:
        match line.split():
            case ["old"]:
                for ok, rows in execute_concurrent_with_args(session, select, [["local"]] * 200):
                    assert ok and rows.one()[0] == "local", rows
                now = [id(socket) for socket in sockets(cluster, session)]
                print("OLD" if now == first else f"the connections are others: {now} for {first}", flush=True)
            case ["new", authority]:
                try:
                    later, asking = connect(authority)
                except NoHostAvailable as error:
                    print("REFUSED", why(error), flush=True)
                    continue
                print("NEW", fingerprint(later, asking), flush=True)
                later.shutdown()
            case ["end"]:
                cluster.shutdown()
                return


if __name__ == "__main__":
    main()
