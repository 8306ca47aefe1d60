import Environment
import Interfaces

/// Attempts at several things of which one is enough: each begins a little later than the one before, or as soon as that failed, so that one that does
/// not answer holds up nobody.
struct StaggeredAttempts: Sendable {
    /// `discover_stagger`: seconds that an attempt is alone before the next one begins beside it.
    static let seconds = 1
    /// `discover_attempts`: maximum number of attempts at a time.
    static let most = 4

    private enum Event<Success: Sendable>: Sendable {
        case succeeded(Int, Success)
        case failed(Int, any Error)
        /// The attempt with this number has been under way for a while.
        case waited(Int)
    }

    let count: Int
    let time: any TimeSource

    /// The first success, with its number. The other attempts are cancelled, and have ended when this returns.
    ///
    /// - Parameters:
    ///   - attempt: by its number.
    ///   - failed: called for each attempt that failed while it mattered.
    ///   - discard: called for each success that came too late.
    /// - Throws: what an attempt threw that is no ``ReplicationError``, or `CancellationError`. Nil is returned if all attempts failed.
    func first<Success: Sendable>(
        _ attempt: @escaping @Sendable (Int) async throws -> Success, failed: (Int, ReplicationError) -> Void, discard: (Success) -> Void
    ) async throws -> (number: Int, success: Success)? {
        let (count, time) = (count, time)
        let outcome = await withTaskGroup(of: Event<Success>.self) { tasks -> Result<(number: Int, success: Success)?, any Error> in
            var end: Result<(number: Int, success: Success)?, any Error>?
            var (begun, running, isDue) = (0, 0, true)
            while end == nil {
                if isDue, begun < count, running < Self.most {
                    let number = begun
                    (begun, running, isDue) = (begun + 1, running + 1, false)
                    tasks.addTask {
                        do { return Event.succeeded(number, try await attempt(number)) } catch { return Event.failed(number, error) }
                    }
                    tasks.addTask {
                        try? await time.sleep(seconds: Self.seconds)
                        return Event.waited(number)
                    }
                }
                guard running > 0, let event = await tasks.next() else {
                    end = .success(nil)
                    break
                }
                switch event {
                case .succeeded(let number, let success): end = .success((number: number, success: success))
                case .failed(let number, let error):
                    (running, isDue) = (running - 1, true)
                    if Task.isCancelled { end = .failure(CancellationError()) } else if let error = error as? ReplicationError {
                        failed(number, error)
                    } else { end = .failure(error) }
                case .waited(let number): if number == begun - 1 { isDue = true }
                }
            }
            tasks.cancelAll()
            for await event in tasks {
                if case .succeeded(_, let late) = event { discard(late) }
            }
            return end ?? .success(nil)
        }
        return try outcome.get()
    }
}
