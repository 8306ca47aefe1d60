/// A function that a plugin's table may contain. The raw value is its name in Lua.
public enum LuaHook: String, Sendable, Hashable, CaseIterable {
    case pushFilter = "push_filter"
    case pullFilter = "pull_filter"
    case resolve
    case authenticatePassword = "authenticate_password"
    case authenticateCertificate = "authenticate_certificate"
    case sync
    case transform
    case token
    case getSession = "get_session"
    case onStatus = "on_status"
    case onDocuments = "on_documents"
    case selectPeer = "select_peer"

    /// Index in the C side's table of hooks (`NJ_HOOK_…`).
    var index: Int32 {
        switch self {
        case .pushFilter: 0
        case .pullFilter: 1
        case .resolve: 2
        case .authenticatePassword: 3
        case .authenticateCertificate: 4
        case .sync: 5
        case .transform: 6
        case .token: 7
        case .getSession: 8
        case .onStatus: 9
        case .onDocuments: 10
        case .selectPeer: 11
        }
    }
}
