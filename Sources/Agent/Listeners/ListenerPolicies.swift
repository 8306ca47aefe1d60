import Documents
import HTTPServer
import Interfaces
import Logging
import Replication

/// The decisions that plugins make for a listener.
package struct ListenerPolicies: Sendable {
    package var authenticator: (any PasswordAuthenticator)?
    /// Used instead of ``authenticator`` for peers that present a certificate.
    package var certificateAuthenticator: (any CertificateAuthenticator)?
    /// Used instead of both for peers that present a bearer token.
    var tokens: TokenAuthenticator?
    /// What peers may pull.
    package var pushFilter: (any DocumentFilter)?
    /// What peers may push.
    package var pullFilter: (any DocumentFilter)?
    /// Judges what peers push, and assigns channels.
    package var syncFunction: (any SyncFunction)?
    /// What resolves conflicts caused by peers' pushes, by database.
    var conflicts: @Sendable (String) -> ConflictPolicy = { _ in ConflictPolicy() }
    var conflictObserver: ConflictObserver = { _ in }
    /// Called with a database in which a peer left conflicts that no resolver handles.
    var leavesConflicts: @Sendable (String) -> Void = { _ in }
    /// Called for each failed login, with the user and the peer's address.
    var refusedLogin: @Sendable (String, String) -> Void = { _, _ in }
    /// The lines of the users file that the authenticator uses; nil if it uses something else.
    var users: @Sendable () -> UserLines? = { nil }
    /// Whether deltas are enabled for a database.
    var usesDeltas: @Sendable (String) -> Bool = { _ in true }
    /// A plugin's push filter by its name, for requests that name one.
    var namedFilter: @Sendable (_ plugin: String, _ parameters: [(key: String, value: String)]) throws -> any DocumentFilter = { plugin, _ in
        throw HTTPError(404, "there is no plugin \"\(plugin)\"")
    }
    /// The listeners that currently serve a database.
    var listenersOf: @Sendable (String) -> Set<String> = { _ in [] }
    /// Logs what crosses the wire.
    var wireLog: WireLog?
    /// Logs queries.
    var queryLogger: Logger?
    /// Users who may write anything in the fleet's collection.
    var fleetPublishers: @Sendable () -> Set<ExactName> = { [] }
}
