extension Explanation {
    /// `DOMAIN/NUMBER` of a replicator's error, or of a document's.
    static let ofReplication = ofHTTP + ofWebSocket + ofNetwork + ofTLS + ofTheRest

    private static let ofHTTP = [
        Explanation("http/200", "The server answered with a page where a WebSocket was asked for.", "Check target: it is not a replication endpoint."),
        Explanation("http/3xx", "The server sends us elsewhere, as captive portals do.", "Check target, or log in to this network."),
        Explanation("http/400", "The peer does not understand what was sent, or the document cannot be stored there.", "The message has the peer's words. For a document: change it."),
        Explanation("http/401", "The login is wrong or missing.", "Check the authenticator: name, password, token or session, and whether the account is still there."),
        Explanation("http/403", "The login is right, and may not do this; or a filter or sync function refused the document.", "Have the account let in by whoever runs the peer; for a document, nightjar replicator NAME refused has the reason."),
        Explanation("http/404", "The peer has no such database, document or blob.", "Check the database's name at the end of target, and whether the peer has it."),
        Explanation("http/405", "The server does not take this method here.", "Check target: it is another kind of server."),
        Explanation("http/407", "The proxy on the way wants a login.", "Give proxy: { username, password }."),
        Explanation("http/408", "The server waited too long for us.", "It passes by itself; look at the line where it lasts."),
        Explanation("http/409", "The peer has another revision of the document.", "It is pulled and decided by the resolver; where the replicator only pushes, let it pull too."),
        Explanation("http/410", "The server has given up what is asked for: the target is another kind of server, or the path is of an old one.", "Check target."),
        Explanation("http/412", "The peer has not what the change builds upon.", "It is sent whole the next time."),
        Explanation("http/413", "A document or blob is larger than the peer, or this agent, takes.", "Raise the limit that the message names, limits: { max_blob_bytes } or { memory } or max_document_bytes of a database, or make the document smaller."),
        Explanation("http/415", "The server does not take this type of body.", "Check target: it is another kind of server."),
        Explanation("http/417", "The peer was asked for what it cannot promise: all documents of a request or none (all_or_nothing).", "Leave all_or_nothing out of the request; each document has its own answer."),
        Explanation("http/422", "A delta or a history does not fit what is there.", "The document is sent whole the next time."),
        Explanation("http/429", "The peer asks for patience: too many requests or wrong logins.", "Wait; where a password is wrong, mend it first."),
        Explanation("http/4xx", "The peer refuses the request.", "The message has its words. Look at target and the authenticator."),
        Explanation("http/500", "Something failed at the peer.", "It is tried again. Look into the peer's log."),
        Explanation("http/501", "The peer does not serve this.", "Check target and the peer's version."),
        Explanation("http/502", "A proxy in front of the peer, or what answers for it, got no sound answer.", "It is tried again. Look at the proxy and the peer."),
        Explanation("http/503", "The peer cannot take it now: overloaded, short of memory or disk, or one of its plugins failed.", "It is tried again. The peer's own status says what it is."),
        Explanation("http/504", "A proxy in front of the peer waited too long.", "It is tried again. Raise the proxy's timeout for WebSockets above heartbeat."),
        Explanation(
            "http/507", "There is no room at the peer: its disk is full, or the database has reached its quota.",
            "Make room there, or raise the database's quota; it is tried again. Here: nightjar status says how much of its quota a database holds, and nightjar explain "
                + "quota_reached what to do."),
        Explanation("http/511", "This network wants a login first: a captive portal.", "Log in to the network."),
        Explanation("http/5xx", "Something failed at the peer.", "It is tried again. Look into the peer's log."),
    ]

    private static let ofWebSocket = [
        Explanation("websocket/404", "The peer has not the collection that was asked for, or knows no collections at all.", "Add the collection to the peer's database and let this login use it, or take it out of collections of the replicator; older peers have only the default one."),
        Explanation("websocket/1000", "The peer ended the connection in order.", "Nothing: it is made again."),
        Explanation("websocket/1001", "The peer went away: it stops or restarts.", "It is tried again."),
        Explanation("websocket/1002", "What answers breaks the protocol: something else than a replication endpoint.", "Check target and proxy.url, or log in to this network if it has a captive portal. Where the two have spoken before, bytes were changed on the way, and it is tried again."),
        Explanation("websocket/1003", "A text message came where only bytes are expected.", "Check target: it is another kind of endpoint."),
        Explanation("websocket/1006", "The connection broke without a word.", "It is tried again. Where it happens at even intervals, something on the way cuts idle connections: set heartbeat below that."),
        Explanation("websocket/1008", "The other side's rules forbid it.", "The message has its words."),
        Explanation("websocket/1009", "A message is larger than the other side takes.", "Look for a document that is too large: nightjar replicator NAME refused."),
        Explanation("websocket/1011", "The peer met an error of its own, or bytes were changed on the way.", "It is tried again. Look into the peer's log; one word (correlation) is in both."),
        Explanation("websocket/1012", "The peer restarts.", "It is tried again."),
        Explanation("websocket/1013", "The peer is short of memory, or has too many connections.", "It is tried again. Raise limits: { memory } there."),
        Explanation("websocket/4001", "The peer asks us to come back later: it stops, reloads, or something there failed.", "It is tried again."),
        Explanation("websocket/4002", "The peer ended the connection because of an error that trying again does not mend.", "The message has its words."),
        Explanation("websocket/other", "The peer ended the connection; the message has its words.", "Look into the peer's log."),
    ]

    private static let ofNetwork = [
        Explanation("network/0", "The path of a socket is longer than the system allows.", "Use a shorter path."),
        Explanation("network/1", "The name server did not answer.", "It is tried again. Look at /etc/resolv.conf and the line: nightjar doctor."),
        Explanation("network/2", "There is no such host.", "Check the host in target; it may be known only in another network."),
        Explanation("network/3", "No answer in time.", "Look whether the peer runs, and whether a firewall on the way drops packets: nightjar doctor."),
        Explanation("network/4", "The address is no URL of a database.", "The message has what is wrong with it: write ws://HOST:PORT/DATABASE or wss://… in target."),
        Explanation("network/5", "The peer sends us from one address to the next without end.", "Check target, or log in to this network if it has a captive portal."),
        Explanation("network/12", "The peer sends us to an address that cannot be used.", "Check target, or log in to this network if it has a captive portal; from TLS to clear text is not followed."),
        Explanation("network/16", "The network reset the connection.", "It is tried again."),
        Explanation("network/17", "The connection was given up, by this machine or by something on the way.", "It is tried again; the message has the system's words."),
        Explanation("network/18", "The peer, or something on the way, cut the connection.", "It is tried again."),
        Explanation("network/19", "The machine is there, and nobody listens at that port.", "Check the port in target, and whether the peer runs."),
        Explanation("network/20", "The network is down.", "Look at the interface: ip link."),
        Explanation("network/21", "No route leads there.", "Look at the routes: ip route."),
        Explanation("network/22", "There is no connection.", "It is made by itself."),
        Explanation("network/23", "The device or program at the other end of an endpoint ended.", "The message has its last words."),
        Explanation("network/24", "The machine does not answer on its own network.", "Look whether it is on."),
        Explanation(
            "network/25", "Another program has the port, or this machine has no such address.",
            "As root, ss -ltnp 'sport = :PORT' says which program has a port: end it, or configure another port. An address has to be one of ip address: check interface. A listener "
                + "tries again by itself, at once with nightjar listener NAME start."),
        Explanation("network/26", "The other end of the pipe is gone.", "It is tried again."),
        Explanation("network/27", "There is no such network interface, or a serial line has no such speed.", "Check network_interface, or plug that interface in."),
        Explanation("network/other", "The network failed; the message has the system's words.", "It is tried again."),
    ]

    private static let ofTLS = [
        Explanation("tls/6", "The two sides found no common ground in the TLS handshake, or one of them speaks none.", "Check ws: against wss:, and the TLS settings on both sides."),
        Explanation("tls/7", "The peer's certificate has ended.", "Have it renewed, and check the clock of this machine."),
        Explanation("tls/8", "The peer's certificate is not to be trusted: another than the pin, not self-signed, or not valid yet.", "Check pinned_server_certificate against what the peer shows now, and the clock of this machine."),
        Explanation("tls/9", "The peer wants a certificate from us.", "Set authenticator: { identity: LABEL }."),
        Explanation("tls/10", "The peer refused our certificate.", "Check authenticator.identity: the peer takes only certificates that it knows."),
        Explanation("tls/11", "Nobody here vouches for the peer's certificate, or the peer speaks no TLS.", "Check pinned_server_certificate, roots and whether target speaks TLS."),
        Explanation("tls/14", "The peer's certificate was revoked.", "Have it replaced."),
        Explanation("tls/15", "The peer's certificate is for another name.", "Check the host name in target against the certificate."),
        Explanation("tls/other", "The TLS connection could not be made.", "Check the TLS settings on both sides."),
    ]

    private static let ofTheRest = [
        Explanation("blip/400", "The peer's answer cannot be read.", "Check the peer's version."),
        Explanation("blip/404", "The peer does not know a message of the protocol.", "Check the peer's version."),
        Explanation("blip/1011", "Messages were lost or changed on the way, or the peer speaks another protocol.", "It is tried again. Where it lasts, look at what is between: a proxy that changes WebSocket messages."),
        Explanation("blip/other", "The peer refused a message of the protocol; the text has its words.", "Check the peer's version."),
        Explanation("litecore/4", "A Couchbase Lite 4 refused a version of a document: \"Invalid timestamp\" is one that is more than two minutes ahead of its clock.", "Set the clock that is wrong. The document is offered again when its time has come, which nightjar replicator NAME refused names as until: nightjar explain versions_ahead."),
        Explanation("litecore/13", "Memory is used up: this agent's, where the message names this agent's limits.memory, else that of a Couchbase Lite at the other end.", "It is tried again. Raise limits: { memory } here, or free memory there."),
        Explanation("litecore/19", "The peer was asked for a filter that it has not.", "Peers' filters are the listener's push_filter; only channels can be asked for by name."),
        Explanation("litecore/501", "The peer cannot do this: it is active itself, or its documents have another kind of revisions.", "Check which side replicates, and the peer's version."),
        Explanation("litecore/other", "The peer's own error, in Couchbase Lite's numbers; the message has its words.", "Look into the peer's log."),
        Explanation("plugin/409", "A conflict waits, because the resolver failed.", "nightjar conflicts list --pending; mend the plugin."),
        Explanation("plugin/503", "A plugin failed on the document, which is held.", "nightjar replicator NAME held has file and line; mend the plugin."),
        Explanation("store/404", "The configuration names a collection that the database has not.", "Add it to collections of the database."),
        Explanation(
            "store/410", "A blob that the document names is gone or damaged here, so that no peer can have the document.",
            "Store the right bytes anew: nightjar blob put DB FILE. The document goes by itself then; nightjar explain documents_damaged."),
        Explanation("store/500", "The database failed; the message says how.", "Look at the disk and at nightjar doctor."),
        Explanation(
            "store/503", "The database cannot be used for now: its disk failed or is not there, descriptors are short, or another program holds its lock.",
            "It is retried by itself. Where it stays, look at the disk, at ulimit -n and at nightjar doctor."),
        Explanation(
            "store/507", "There is no room here: this machine's disk is full, or the database has reached its quota; the message says which.",
            "Make room, or raise the database's quota; it goes on by itself. nightjar status says how much of its quota a database holds, and nightjar explain "
                + "quota_reached what to do."),
    ]
}
