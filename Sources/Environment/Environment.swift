import Synchronization

/// What the agent takes from the world beside its inputs: time, chance, files, and places where work runs.
///
/// It is passed down from the top (`nightjar run`, a test, the simulator), and nothing reaches around it: so a run in the
/// simulator depends on its seed alone.
public struct Environment: Sendable {
    public var time: any TimeSource
    public var random: any RandomSource
    /// Where tasks run that belong to no actor with an executor of its own; nil for Swift's own pool.
    public var taskExecutor: (any TaskExecutor)?
    /// Where work runs that blocks.
    package var workers: any WorkerPool
    package var files: any FileSystem
    /// The name of the SQLite VFS for databases; nil for SQLite's default one.
    package var sqliteVFS: String?
    #if DEBUG
    /// For the simulation's tests of itself.
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

    /// The machine's clocks, randomness, threads and files, and Swift's own pool.
    public static let system = Environment(time: SystemTime(), random: SystemRandom())

    /// Starts a task where this environment runs its tasks.
    @discardableResult
    public func task<Success: Sendable>(
        priority: TaskPriority? = nil, _ body: sending @escaping @isolated(any) () async -> Success
    ) -> Task<Success, Never> {
        Task(executorPreference: taskExecutor, priority: priority, operation: body)
    }

    /// Starts a task that may keep its thread for milliseconds at a time, for a peer's sake. Swift's pool has other threads for a lower
    /// priority: what many peers have looked at there keeps nobody else waiting, such as the admin API or a stop.
    @discardableResult
    public func lengthyTask(_ body: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> { task(priority: .utility, body) }

    /// The same where the result is waited for. The work keeps its low priority whoever waits, and is cancelled with the task that does.
    package func lengthyWork<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let work = Mutex<(task: Task<Void, Never>?, isCancelled: Bool)>((nil, false))
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value, any Error>) in
                // Under the lock: whoever cancels from within the work finds the task, however soon that is.
                work.withLock { work in
                    let task = lengthyTask {
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
