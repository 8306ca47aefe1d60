import Synchronization

/// Everything that the agent takes from the world besides its inputs: time, randomness, files, and places where work runs.
///
/// It is passed down from the top (`nightjar run`, a test, the simulator). Clocks, randomness, threads and the store's files are taken from nowhere else,
/// with the exceptions that `EnvironmentTests` lists: so a run in the simulator depends only on its seed. The agent's own small files (``DurableFile``) are
/// the machine's.
public struct Environment: Sendable {
    public var time: any TimeSource
    public var random: any RandomSource
    /// The executor for tasks that do not belong to an actor with an executor of its own; nil for Swift's default pool.
    public var taskExecutor: (any TaskExecutor)?
    /// Where blocking work runs.
    package var workers: any WorkerPool
    package var files: any FileSystem
    /// The name of the SQLite VFS for databases; nil for SQLite's default one.
    package var sqliteVFS: String?
    #if DEBUG
    /// Fault injection, for tests of the simulation itself.
    var planted: PlantedFault?
    #endif

    public init(time: any TimeSource, random: any RandomSource, taskExecutor: (any TaskExecutor)? = nil) {
        self.init(time: time, random: random, taskExecutor: taskExecutor, workers: ThreadWorkers())
    }

    package init(
        time: any TimeSource, random: any RandomSource, taskExecutor: (any TaskExecutor)? = nil, workers: any WorkerPool,
        files: any FileSystem = SystemFiles(), sqliteVFS: String? = nil
    ) {
        self.time = time
        self.random = random
        self.taskExecutor = taskExecutor
        self.workers = workers
        self.files = files
        self.sqliteVFS = sqliteVFS
    }

    /// The machine's clocks, randomness, threads and files, and Swift's default pool.
    public static let system = Environment(time: SystemTime(), random: SystemRandom())

    /// Starts a task on this environment's executor.
    @discardableResult
    public func task<Success: Sendable>(
        priority: TaskPriority? = nil, _ body: sending @escaping @isolated(any) () async -> Success
    ) -> Task<Success, Never> {
        Task(executorPreference: taskExecutor, priority: priority, operation: body)
    }

    /// Starts a task that may occupy its thread for milliseconds at a time on behalf of a peer. Swift's pool has separate threads for lower
    /// priorities: work for many peers then does not delay anything else, such as the admin API or a stop.
    @discardableResult
    public func backgroundTask(_ body: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> { task(priority: .utility, body) }

    /// The same, waiting for the result. The work keeps its low priority whoever waits, and is cancelled together with the waiting task.
    package func backgroundWork<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let work = Mutex<(task: Task<Void, Never>?, isCancelled: Bool)>((nil, false))
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value, any Error>) in
                // Under the lock, so that a cancellation from within the work finds the task, however early it comes.
                work.withLock { work in
                    let task = backgroundTask {
                        do { continuation.resume(returning: try await body()) } catch { continuation.resume(throwing: error) }
                    }
                    work.task = task
                    if work.isCancelled { task.cancel() }
                }
            }
        } onCancel: {
            let task = work.withLock { work in
                work.isCancelled = true
                return work.task
            }
            task?.cancel()
        }
    }
}
