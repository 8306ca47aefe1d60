import HTTPServer

extension UpgradeRequest {
    /// A login without a replication connection: its credentials are judged in the same way.
    package init(login request: HTTPRequest, database: String, credentials: BasicCredentials?) {
        self.init(
            database: database, path: request.path, query: request.query, headers: request.headers,
            remoteAddress: request.connection.remoteAddress, origin: request.connection.origin, offeredProtocols: [], selectedProtocol: "",
            basicCredentials: credentials, securePeer: request.securePeer)
    }
}
