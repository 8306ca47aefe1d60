import HTTPServer

/// Boolean queries of the admin API, false if absent. All are read by ``HTTPServer/HTTPRequest/flag(_:)``: any other value is an error, so that a caller
/// does not get the opposite of what was meant.
enum AdminFlag: String, CaseIterable {
    case bodies, collectionNames = "collection_names", cv, deleted, dryRun = "dry_run", facts, keep, log, missingBlobs = "missing_blobs", newest, reset

    /// The routes that read it, as ``AdminRouteSummaries`` names them.
    var routes: [String] {
        switch self {
        case .bodies: ["GET api/conflicts"]
        case .collectionNames: ["GET api/databases/:db/export"]
        case .cv: ["GET api/databases/:db/documents/:id"]
        case .deleted: ["GET api/databases/:db/documents", "GET api/databases/:db/export", "GET api/databases/:db/find"]
        case .dryRun: ["POST api/databases/:db/resync"]
        case .facts: ["GET api/databases/:db/blobs/:digest"]
        case .keep: ["POST api/replicators/:name/stop"]
        case .log: ["GET api/events"]
        case .missingBlobs: ["POST api/databases/:db/import"]
        case .newest: ["GET api/databases/:db/find"]
        case .reset: ["POST api/replicators/:name/start"]
        }
    }
}

extension HTTPRequest {
    /// - Throws: ``AgentError`` if the query has any value other than true or false, including none.
    func flag(_ flag: AdminFlag) throws -> Bool {
        switch try queryValue(flag.rawValue) {
        case nil, "false": return false
        case "true": return true
        case let other?: throw AgentError(.invalid, "\(flag.rawValue) must be true or false, not \"\(other)\"")
        }
    }
}
