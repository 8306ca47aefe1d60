extension Explanation {
    /// `DOMAIN/NUMBER` of a replicator's error, or of a document's.
    static let ofReplication = ofHTTP + ofWebSocket + ofNetwork + ofTLS + ofTheRest

    private static let ofHTTP = [
        Explanation("http/200", "The server answered with a web page instead of a WebSocket.", "Check target: it is not a replication endpoint."),
        Explanation("http/3xx", "The server redirects us, as captive portals do.", "Check target, or log in to this network."),
        Explanation("http/400", "The peer does not understand what was sent, or the document cannot be stored there.", "The message quotes the peer. For a document: "
            + "change it."),
        Explanation("http/401", "The login is wrong or missing.", "Check the authenticator: name, password, token or session, and whether the account still exists."),
        Explanation("http/403", "The login is correct but may not do this; or a filter or sync function rejected the document.", "Have the peer's operator give the "
            + "account access; for a document, nightjar replicator NAME refused has the reason."),
        Explanation("http/404", "The peer has no such database, document or blob.", "Check the database's name at the end of target, and whether the peer has it."),
        Explanation("http/405", "The server does not support this method here.", "Check target: it is another kind of server."),
        Explanation("http/407", "A proxy on the way requires a login.", "Give proxy: { username, password }."),
        Explanation("http/408", "The server waited too long for our request.", "It passes by itself; if it lasts, check the line."),
        Explanation("http/409", "The peer has another revision of the document.", "That revision is pulled and the conflict decided by the resolver; if the "
            + "replicator only pushes, let it pull too."),
        Explanation("http/410", "The server no longer offers what was asked for: the target is another kind of server, or the path belongs to an old "
            + "version.", "Check target."),
        Explanation("http/412", "The peer lacks the revision that the change builds on.", "The document is sent whole the next time."),
        Explanation("http/413", "A document or blob is larger than the peer, or this agent, accepts.", "Raise the limit that the message names, limits: { "
            + "max_blob_bytes } or { memory } or max_document_bytes of a database, or make the document smaller."),
        Explanation("http/415", "The server does not accept this type of body.", "Check target: it is another kind of server."),
        Explanation("http/417", "The peer was asked for something that it cannot guarantee: to store all documents of a request or none (all_or_nothing).", "Leave "
            + "all_or_nothing out of the request; each document gets its own answer."),
        Explanation("http/422", "A delta or a history does not fit what is there.", "The document is sent whole the next time."),
        Explanation("http/429", "The peer asks us to wait: too many requests or failed logins.", "Wait; if a password is wrong, correct it first."),
        Explanation("http/4xx", "The peer refuses the request.", "The message quotes it. Check target and the authenticator."),
        Explanation("http/500", "Something failed at the peer.", "It is retried. Check the peer's log."),
        Explanation("http/501", "The peer does not offer this.", "Check target and the peer's version."),
        Explanation("http/502", "A proxy in front of the peer, or something else in its place, got no valid response.", "It is retried. Check the proxy and the peer."),
        Explanation("http/503", "The peer cannot handle it now: overloaded, short of memory or disk, or one of its plugins failed.", "It is retried. The peer's own "
            + "status says which."),
        Explanation("http/504", "A proxy in front of the peer waited too long.", "It is retried. Raise the proxy's timeout for WebSockets above heartbeat."),
        Explanation(
            "http/507", "There is no room at the peer: its disk is full, or the database has reached its quota.",
            "Make room there, or raise the database's quota; it is tried again. Here: nightjar status says how much of its quota a database uses, and nightjar "
                + "explain quota_reached what to do."),
        Explanation("http/511", "This network requires a login first: a captive portal.", "Log in to the network."),
        Explanation("http/5xx", "Something failed at the peer.", "It is retried. Check the peer's log."),
    ]

    private static let ofWebSocket = [
        Explanation("websocket/404", "The peer does not have the collection that was asked for, or does not support collections at all.", "Add the collection to the "
            + "peer's database and let this login use it, or remove it from the replicator's collections; older peers have only the default one."),
        Explanation("websocket/1000", "The peer closed the connection normally.", "Nothing: the replicator reconnects."),
        Explanation("websocket/1001", "The peer went away: it is stopping or restarting.", "It is retried."),
        Explanation("websocket/1002", "The other side violates the protocol: it is not a replication endpoint.", "Check target and proxy.url, or log in to this "
            + "network if it has a captive portal. If the two sides had communicated before, bytes were changed on the way, and it is retried."),
        Explanation("websocket/1003", "A text message arrived where only binary ones are expected.", "Check target: it is another kind of endpoint."),
        Explanation("websocket/1006", "The connection broke without a closing message.", "It is retried. If it happens at once, the scheme may be wrong: a server that speaks TLS needs wss: or "
            + "https:, and one that does not needs ws: or http:; the message says so where that is known. If it happens at regular intervals, something on the way cuts idle "
            + "connections: set heartbeat below that interval."),
        Explanation("websocket/1008", "The other side's policy forbids it.", "The message quotes it."),
        Explanation("websocket/1009", "A message is larger than the other side accepts.", "Look for a document that is too large: nightjar replicator NAME refused."),
        Explanation("websocket/1011", "The peer had an internal error, or bytes were changed on the way.", "It is retried. Check the peer's log; the same "
            + "correlation is in both logs."),
        Explanation("websocket/1012", "The peer is restarting.", "It is retried."),
        Explanation("websocket/1013", "The peer is short of memory, or has too many connections.", "It is retried. Raise limits: { memory } there."),
        Explanation(
            "websocket/4001",
            "The peer closed the connection and asks us to come back later: it is stopping or reloading, an operator stopped its listener, the login or "
                + "session is no longer valid there or somebody disconnected it, its memory for peers is used up, or something there failed.",
            "It is retried, with a new login. The message quotes the peer; if it stays, check the peer's log and health."),
        Explanation(
            "websocket/4002", "The peer ended the replication for good, because of an error that a retry does not fix.", "The message quotes the peer; check its log."),
        Explanation("websocket/other", "The peer closed the connection; the message quotes it.", "Check the peer's log."),
    ]

    private static let ofNetwork = [
        Explanation("network/0", "The path of a socket is longer than the system allows.", "Use a shorter path."),
        Explanation("network/1", "The name server did not answer.", "It is retried. Check /etc/resolv.conf and the line: nightjar doctor."),
        Explanation(
            "network/2", "There is no such host; or, where target is discover:…, nobody announces such a listener, or this machine's Avahi does not answer.",
            "Check the host in target; the name may be known only on another network. For discover: nightjar discover shows what is announced, or why nothing is."),
        Explanation("network/3", "No answer in time.", "Check whether the peer is running, and whether a firewall on the way drops packets: nightjar doctor."),
        Explanation("network/4", "The address is not the URL of a database.", "The message says what is wrong with it: write ws://HOST:PORT/DATABASE or wss://… in target."),
        Explanation("network/5", "The peer redirects us from one address to the next without end.", "Check target, or log in to this network if it has a captive portal."),
        Explanation("network/12", "The peer redirects us to an address that cannot be used.", "Check target, or log in to this network if it has a captive portal; "
            + "a redirect from TLS to clear text is not followed."),
        Explanation("network/16", "The network reset the connection.", "It is retried."),
        Explanation("network/17", "The connection was aborted, by this machine or by something on the way.", "It is tried again; the message quotes the system."),
        Explanation("network/18", "The peer, or something on the way, cut the connection.", "It is retried."),
        Explanation("network/19", "The machine is reachable, but nothing listens on that port.", "Check the port in target, and whether the peer is running."),
        Explanation("network/20", "The network is down.", "Look at the interface: ip link."),
        Explanation("network/21", "There is no route to that address.", "Look at the routes: ip route."),
        Explanation("network/22", "There is no connection.", "It is made by itself."),
        Explanation("network/23", "The device or program at the other end of an endpoint ended.", "The message has its last output."),
        Explanation("network/24", "The machine does not respond on its own network.", "Check whether it is switched on."),
        Explanation(
            "network/25", "Another program has the port, or this machine has no such address.",
            "As root, ss -ltnp 'sport = :PORT' says which program has a port: end it, or configure another port. An address has to be among those that ip address "
                + "lists: check interface. A listener retries by itself, or at once with nightjar listener NAME start."),
        Explanation("network/26", "The other end of the pipe is gone.", "It is retried."),
        Explanation("network/27", "There is no such network interface, or a serial line does not support that speed.", "Check network_interface, or plug that interface in."),
        Explanation(
            "network/28", "This machine does not let the agent listen there: a port below 1024 needs a right, or the folder of a socket is not writable for the agent's user.",
            "Set AmbientCapabilities= and CapabilityBoundingSet= to CAP_NET_BIND_SERVICE in the agent's unit, with PrivateUsers=no, or use a port above 1023; for a "
                + "socket, let the agent's user write in its folder."),
        Explanation("network/other", "The network failed; the message quotes the system.", "It is retried."),
    ]

    private static let ofTLS = [
        Explanation("tls/6", "The two sides could not agree in the TLS handshake, or one of them does not use TLS.", "Check ws: against wss:, and the TLS settings "
            + "on both sides."),
        Explanation("tls/7", "The peer's certificate has expired.", "Have it renewed, and check the clock of this machine. No dates are checked where "
            + "pinned_server_certificate names the server's certificate, its key or its authority."),
        Explanation("tls/8", "The peer's certificate is not trusted: it does not match the pin, is not self-signed, or is not valid yet.", "Check "
            + "pinned_server_certificate against what the peer presents now, and the clock of this machine."),
        Explanation("tls/9", "The peer requires a certificate from us.", "Set authenticator: { identity: LABEL }."),
        Explanation("tls/10", "The peer refused our certificate.", "Check authenticator.identity: the peer accepts only certificates that it knows."),
        Explanation("tls/11", "No authority that is trusted here signed the peer's certificate, or the peer does not use TLS.", "Check pinned_server_certificate, "
            + "roots and whether target uses TLS."),
        Explanation("tls/14", "The peer's certificate was revoked.", "Have it replaced."),
        Explanation("tls/15", "The peer's certificate is for another name.", "Check the host name in target against the certificate."),
        Explanation("tls/other", "The TLS connection could not be made.", "Check the TLS settings on both sides."),
    ]

    private static let ofTheRest = [
        Explanation("blip/400", "The peer's answer cannot be read.", "Check the peer's version."),
        Explanation("blip/404", "The peer does not know a message of the protocol.", "Check the peer's version."),
        Explanation("blip/1011", "Messages were lost or changed on the way, or the peer speaks a different protocol.", "It is retried. If it lasts, look for "
            + "something in between, such as a proxy that changes WebSocket messages."),
        Explanation("blip/other", "The peer refused a message of the protocol; the text quotes it.", "Check the peer's version."),
        Explanation("litecore/4", "A Couchbase Lite 4 refused a version of a document: \"Invalid timestamp\" means that the version is more than two minutes ahead "
            + "of its clock.", "Set the clock that is wrong. The document is offered again at the time that nightjar replicator NAME refused shows as until: "
            + "nightjar explain versions_ahead."),
        Explanation("litecore/13", "Memory is used up: that of this agent if the message names this agent's limits.memory, otherwise that of a Couchbase Lite on the "
            + "other side.", "It is retried, with one document requested at a time. Raise limits: { memory } here, or free memory there."),
        Explanation("litecore/19", "The peer was asked for a filter that it does not have.", "Peers' filters are the listener's push_filter; only channels can be "
            + "asked for by name."),
        Explanation("litecore/501", "The peer cannot do this: it replicates actively itself, or its documents use the other kind of revision identifiers.", "Check "
            + "which side replicates, and the peer's version."),
        Explanation("litecore/other", "The peer's own error, in Couchbase Lite's numbering; the message quotes it.", "Check the peer's log."),
        Explanation("plugin/409", "A conflict waits, because the resolver failed.", "nightjar conflicts list --pending; fix the plugin."),
        Explanation("plugin/503", "A plugin failed on the document, which is held; or on the choice of a peer (select_peer), and the replicator waits.",
            "nightjar replicator NAME held, or its status, has file and line; fix the plugin."),
        Explanation("store/404", "The configuration names a collection that the database does not have.", "Add it to collections of the database."),
        Explanation(
            "store/410", "A blob that the document names is gone or damaged here, so that no peer can get the document.",
            "Store the right bytes again: nightjar blob put DB FILE. The document is then sent by itself; nightjar explain documents_damaged."),
        Explanation("store/500", "The database failed; the message says how.", "Look at the disk and at nightjar doctor."),
        Explanation(
            "store/503", "The database cannot be used at the moment: its disk failed or is missing, file descriptors have run out, or another program holds its lock.",
            "It is retried by itself. If it stays, check the disk, ulimit -n and nightjar doctor."),
        Explanation(
            "store/507", "There is no room here: this machine's disk is full, or the database has reached its quota; the message says which.",
            "Make room, or raise the database's quota; it then resumes by itself. nightjar status says how much of its quota a database uses, and nightjar explain "
                + "quota_reached what to do."),
    ]
}
