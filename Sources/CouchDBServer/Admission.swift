import Documents
import HTTPServer
import Synchronization

/// Whether somebody whom the listener let in may still be there, for as long as a request is answered: the listener takes that back, or has it
/// judged again, and nothing more is read for the client.
package final class Admission: Sendable {
    package enum Standing: Sendable {
        case admitted
        /// Who may come in has changed, and this one has not been judged by it yet.
        case inDoubt
        case ended
    }

    /// A request for changes that lasts: `longpoll`, `continuous` or `eventsource`.
    package struct Feed: Sendable, Equatable {
        package var kind: String
        package var collection: CollectionName
    }

    private struct State {
        /// The change of who may come in that this one has to be judged by, and the last by which it was.
        var asked: Int
        var judged: Int
        var isEnded = false
        /// It ended because the listener stops.
        var isOfStop = false
        var feed: Feed?
        /// The answer waits for news: it hears of the end, and comes to an end itself.
        var isWaiting = false
        var cut: (@Sendable () -> Void)?
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private let state: Mutex<State>
    private let gone: @Sendable () -> Void

    /// - Parameters:
    ///   - generation: of who may come in, when this one was let in.
    ///   - gone: called when nobody answers the request any more.
    package init(generation: Int = 0, gone: @escaping @Sendable () -> Void = {}) {
        state = Mutex(State(asked: generation, judged: generation))
        self.gone = gone
    }

    deinit { gone() }

    package var standing: Standing {
        state.withLock { $0.isEnded ? .ended : $0.judged < $0.asked ? .inDoubt : .admitted }
    }

    /// Nil for one that is about to be answered, and for one that has to go.
    package var feed: Feed? { state.withLock { $0.isEnded ? nil : $0.feed } }

    // MARK: - The listener's side

    /// It has to be judged by this change before it gets any more.
    package func doubt(_ generation: Int) {
        state.withLock { $0.asked = max($0.asked, generation) }
    }

    /// By this change it may stay.
    package func confirm(_ generation: Int) {
        let actions = state.withLock { state in
            state.judged = max(state.judged, generation)
            return Array(state.actions.values)
        }
        for action in actions { action() }
    }

    /// - Parameter cuts: whether an answer is cut that is on its way, whose client may take its time to read it.
    /// - Returns: false where it had ended before.
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

    /// The listener stops: what is on its way to the client may get there.
    package func listenerStops() {
        state.withLock { $0.isOfStop = !$0.isEnded }
        end(cuts: false)
    }

    // MARK: - The answer's side

    /// What the client is told that may not stay. Whoever is told to log in anew while the listener stops takes a good password for a bad one.
    package var refusal: HTTPError {
        if state.withLock({ $0.isOfStop }) { return HTTPError(503, "the listener stops; come back later", headers: ["Retry-After": "5"]) }
        return HTTPError(401, "the login is not valid any more", error: "unauthorized")
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

    /// Calls the action when it was judged or has ended. The action must not block.
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

    /// The answer lasts until its client has enough.
    func becomes(_ feed: Feed) {
        state.withLock { $0.feed = feed }
    }

    /// The answer waits, or goes on.
    func wait(_ isWaiting: Bool) {
        state.withLock { $0.isWaiting = isWaiting }
    }

    /// The answer goes out from now on; nil: it is complete.
    ///
    /// - Parameter cut: ends the connection.
    /// - Returns: false where it must not go out.
    func send(cut: (@Sendable () -> Void)?) -> Bool {
        state.withLock { state in
            state.cut = cut
            return !state.isEnded
        }
    }
}
