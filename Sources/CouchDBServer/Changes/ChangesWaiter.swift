import DocumentStore
import Environment
import HTTPServer
import Synchronization

/// Waits for changes in a collection, sends heartbeats meanwhile, and notices when a feed has to end: because of a timeout, because
/// the listener is stopping, or because its client would no longer be let in.
final class ChangesWaiter: Sendable {
    private struct State {
        var hasChanged = false
        var isOver = false
        /// Monotonic nanoseconds.
        var idleSince: UInt64
        var signDue: UInt64?
    }

    private let call: CouchCall
    private let heartbeat: UInt64?
    private let timeout: UInt64
    private let state: Mutex<State>
    private let wake: AsyncStream<Void>.Continuation
    private let wakes: AsyncStream<Void>
    private let observation = Mutex<ChangeObservation?>(nil)
    private let drain = Mutex<DrainSignal.Registration?>(nil)
    private let admission = Mutex<Int?>(nil)

    init(_ call: CouchCall, _ question: ChangesQuestion) {
        self.call = call
        let time = call.host.environment.time
        let now = time.monotonicNanoseconds()
        let beat = question.heartbeat.map { UInt64($0) * 1_000_000 }
        heartbeat = beat
        timeout = UInt64(question.timeout) * 1_000_000
        state = Mutex(State(idleSince: now, signDue: beat.map { now + $0 }))
        (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observed = call.database.observeChanges(call.collection) { [weak self] _ in
            self?.state.withLock { $0.hasChanged = true }
            self?.wake.yield()
        }
        observation.withLock { $0 = observed }
        let registered = call.request.connection.drain.onDrain { [weak self] in
            self?.state.withLock { $0.isOver = true }
            self?.wake.yield()
        }
        drain.withLock { $0 = registered }
        let told = call.admission.onChange { [weak self] in self?.wake.yield() }
        admission.withLock { $0 = told }
    }

    deinit {
        observation.withLock { $0 }?.cancel()
        if let registered = drain.withLock({ $0 }) { call.request.connection.drain.cancel(registered) }
        if let told = admission.withLock({ $0 }) { call.admission.cancel(told) }
    }

    /// Rows were sent.
    func changed() {
        let now = call.host.environment.time.monotonicNanoseconds()
        state.withLock { state in
            state.idleSince = now
            if let heartbeat { state.signDue = now + heartbeat }
        }
    }

    /// - Returns: false when the feed must end.
    func wait(sign: () async throws -> Void) async throws -> Bool {
        let time = call.host.environment.time
        // Memory of a waiting feed counts as the agent's own, not as owed by the client.
        call.answer.hold(CouchLimits.feedBytes, isOwed: false, waitsForChanges: true)
        defer { call.answer.hold(0) }
        call.admission.wait(true)
        defer { call.admission.wait(false) }
        while true {
            try Task.checkCancellation()
            let now = time.monotonicNanoseconds()
            let standing = call.admission.standing
            let (isOver, hasChanged, idleSince, signDue) = state.withLock { state in
                // While the client's permission is in doubt, changes are held back.
                let hasChanged = state.hasChanged && standing == .admitted
                if hasChanged { state.hasChanged = false }
                return (state.isOver, hasChanged, state.idleSince, state.signDue)
            }
            guard !isOver, standing != .ended else { return false }
            if hasChanged { return true }
            let due = signDue ?? idleSince + timeout
            if due <= now {
                guard let heartbeat else { return false }
                // The heartbeat may block on a client that does not read, and then the feed cannot notice its own end.
                call.admission.wait(false)
                try await sign()
                call.admission.wait(true)
                state.withLock { $0.signDue = now + heartbeat }
                continue
            }
            await sleep(due - now)
        }
    }

    /// Until something happens, or this many nanoseconds have passed.
    private func sleep(_ nanoseconds: UInt64) async {
        let (time, wake) = (call.host.environment.time, wake)
        let timer = call.host.environment.task {
            // A cancelled timer must not wake the next wait, which would then never sleep.
            guard (try? await time.sleep(nanoseconds: nanoseconds)) != nil else { return }
            wake.yield()
        }
        for await _ in wakes { break }
        timer.cancel()
    }
}
