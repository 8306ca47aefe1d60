import HTTPServer
import Interfaces
import Logging
import Replication

/// What plugins decide for a listener.
package struct ListenerPolicies: Sendable {
    package var authenticator: (any PasswordAuthenticator)?
    /// Asked instead of ``authenticator`` about peers that show a certificate.
    package var certificateAuthenticator: (any CertificateAuthenticator)?
    /// Asked instead of both about peers that show a bearer token.
    var tokens: TokenAuthenticator?
    /// What peers may pull.
    package var pushFilter: (any DocumentFilter)?
    /// What peers may push.
    package var pullFilter: (any DocumentFilter)?
    /// Decides about what peers push, and assigns channels.
    package var syncFunction: (any SyncFunction)?
    /// Who decides what peers push into conflict, by database.
    var conflicts: @Sendable (String) -> ConflictPolicy = { _ in ConflictPolicy() }
    var conflictObserver: ConflictObserver = { _ in }
    /// Told of a database in which a peer left conflicts that have no resolver.
    var leavesConflicts: @Sendable (String) -> Void = { _ in }
    /// Told of a wrong login: the user, and the peer's address.
    var refusedLogin: @Sendable (String, String) -> Void = { _, _ in }
    /// The lines of the file of users by which the authenticator goes; nil where it goes by something else.
    var users: @Sendable () -> UserLines? = { nil }
    /// Whether a database has deltas on.
    var usesDeltas: @Sendable (String) -> Bool = { _ in true }
    /// A plugin's push filter by its name, for requests that name one.
    var namedFilter: @Sendable (_ plugin: String, _ parameters: [(key: String, value: String)]) throws -> any DocumentFilter = { plugin, _ in
        throw HTTPError(404, "there is no plugin \"\(plugin)\"")
    }
    /// The listeners that serve a database now.
    var listenersOf: @Sendable (String) -> Set<String> = { _ in [] }
    /// Told of what crosses the wire.
    var wireLog: WireLog?
    /// Told of queries.
    var queryLogger: Logger?
    /// Users who may write anything into the fleet's collection.
    var fleetPublishers: @Sendable () -> Set<String> = { [] }
}
