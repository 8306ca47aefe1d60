import Documents
import HTTPServer
import Synchronization

/// Whether a client that the listener let in may still be served, for as long as its request is being answered: if the listener withdraws the
/// permission, or judges the client again, nothing more is read for it meanwhile.
package final class Admission: Sendable {
    package enum Standing: Sendable {
        case admitted
        /// Permissions have changed, and this client has not been judged by the new ones yet.
        case inDoubt
        case ended
    }

    /// A long-lived request for changes: `longpoll`, `continuous` or `eventsource`.
    package struct Feed: Sendable, Equatable {
        package var kind: String
        package var collection: CollectionName
    }

    private struct State {
        /// The generation of permissions that this client must be judged by, and the last one that it was judged by.
        var asked: Int
        var judged: Int
        var isEnded = false
        /// It ended because the listener is stopping.
        var endedByStop = false
        var feed: Feed?
        /// The response is waiting for changes: it notices the end itself, and finishes.
        var isWaiting = false
        var cut: (@Sendable () -> Void)?
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private let state: Mutex<State>
    private let gone: @Sendable () -> Void

    /// - Parameters:
    ///   - generation: the generation of permissions by which this client was let in.
    ///   - gone: called when the request is no longer being answered.
    package init(generation: Int = 0, gone: @escaping @Sendable () -> Void = {}) {
        state = Mutex(State(asked: generation, judged: generation))
        self.gone = gone
    }

    deinit { gone() }

    package var standing: Standing {
        state.withLock { $0.isEnded ? .ended : $0.judged < $0.asked ? .inDoubt : .admitted }
    }

    /// Nil before the answer begins, and once the client is no longer permitted.
    package var feed: Feed? { state.withLock { $0.isEnded ? nil : $0.feed } }

    // MARK: - The listener's side

    /// The client must be judged by this generation before it gets anything more.
    package func doubt(_ generation: Int) {
        state.withLock { $0.asked = max($0.asked, generation) }
    }

    /// The client was judged by this generation and may stay.
    package func confirm(_ generation: Int) {
        let actions = state.withLock { state in
            state.judged = max(state.judged, generation)
            return Array(state.actions.values)
        }
        for action in actions { action() }
    }

    /// - Parameter cuts: whether to cut an answer in progress, which a slow client might take a long time to read.
    /// - Returns: false if it had already ended.
    @discardableResult
    package func end(cuts: Bool = true) -> Bool {
        let found = state.withLock { state -> (actions: [@Sendable () -> Void], cut: (@Sendable () -> Void)?)? in
            guard !state.isEnded else { return nil }
            state.isEnded = true
            return (Array(state.actions.values), cuts && !state.isWaiting ? state.cut : nil)
        }
        guard let found else { return false }
        for action in found.actions { action() }
        found.cut?()
        return true
    }

    /// The listener is stopping: data already on its way to the client may still arrive.
    package func listenerStops() {
        state.withLock { $0.endedByStop = !$0.isEnded }
        end(cuts: false)
    }

    // MARK: - The answer's side

    /// The error for a client that may not stay. If the listener is stopping it must not be a 401: the client would think its good password
    /// was wrong.
    package var refusal: HTTPError {
        if state.withLock({ $0.endedByStop }) { return HTTPError(503, "the listener is stopping; come back later", headers: ["Retry-After": "5"]) }
        return HTTPError(401, "the login is no longer valid", error: "unauthorized")
    }

    /// Whether it may stay, as soon as that is known.
    package func settled() async -> Bool {
        let known = standing
        guard known == .inDoubt else { return known == .admitted }
        let (changes, change) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = onChange { change.yield() }
        defer { cancel(number) }
        while standing == .inDoubt, !Task.isCancelled {
            for await _ in changes { break }
        }
        return standing == .admitted
    }

    /// Calls the action when the client was judged or the admission has ended. The action must not block.
    func onChange(_ action: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.next += 1
            state.actions[state.next] = action
            return state.next
        }
    }

    func cancel(_ number: Int) {
        state.withLock { _ = $0.actions.removeValue(forKey: number) }
    }

    /// The answer lasts until the client disconnects.
    func becomes(_ feed: Feed) {
        state.withLock { $0.feed = feed }
    }

    /// The answer starts or stops waiting for changes.
    func wait(_ isWaiting: Bool) {
        state.withLock { $0.isWaiting = isWaiting }
    }

    /// The answer starts being sent; nil means that it is complete.
    ///
    /// - Parameter cut: ends the connection.
    /// - Returns: false if it must not be sent.
    func send(cut: (@Sendable () -> Void)?) -> Bool {
        state.withLock { state in
            state.cut = cut
            return !state.isEnded
        }
    }
}
