/// Why the agent cannot do what it was asked to, in words for the operator.
package struct AgentError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// The configuration is wrong (exit status 78).
        case configuration
        /// What was named does not exist.
        case notFound
        /// Another change came first.
        case conflict
        /// The request makes no sense.
        case invalid
        /// A plugin rejects it.
        case forbidden
        /// It cannot be judged at the moment.
        case notNow
        /// The request is larger than a limit.
        case tooLarge
        /// The disk is full. The data was not stored; it can be once there is space.
        case outOfSpace
        /// Something failed.
        case failed
    }

    package var kind: Kind
    package var message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    package var description: String { message }
}

/// A stop was requested while the agent was starting.
struct StartAbandoned: Error {}
