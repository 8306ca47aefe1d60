import Glibc

/// A queue between many callers and one or a few threads of our own.
///
/// Unchecked: every access to `jobs` and `isClosed` is made while holding `lock`. Swift's
/// `Mutex` has no condition variable to wait on, hence pthread's.
final class JobQueue<Job: Sendable>: @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let arrived = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var jobs: [Job] = []
    /// Index of the first job still waiting; avoids shifting the array at each take.
    private var head = 0
    private var isClosed = false

    init() {
        pthread_mutex_init(lock, nil)
        pthread_cond_init(arrived, nil)
    }

    deinit {
        pthread_cond_destroy(arrived)
        pthread_mutex_destroy(lock)
        arrived.deallocate()
        lock.deallocate()
    }

    /// False if the queue is closed; the job was not taken then.
    func push(_ job: Job) -> Bool {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        if isClosed { return false }
        jobs.append(job)
        pthread_cond_signal(arrived)
        return true
    }

    /// Waits for jobs and takes up to `limit`. Empty means closed and nothing left.
    func take(upTo limit: Int) -> [Job] {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while head == jobs.count && !isClosed { pthread_cond_wait(arrived, lock) }
        return removeFirst(limit)
    }

    /// Takes what is there without waiting.
    func takeWaiting(upTo limit: Int) -> [Job] {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return removeFirst(limit)
    }

    /// Jobs pushed before are still handed out; later ones are refused.
    func close() {
        pthread_mutex_lock(lock)
        isClosed = true
        pthread_cond_broadcast(arrived)
        pthread_mutex_unlock(lock)
    }

    private func removeFirst(_ limit: Int) -> [Job] {
        let end = min(jobs.count, head + limit)
        if head == 0 && end == jobs.count {
            let all = jobs
            jobs = []
            return all
        }
        let taken = Array(jobs[head..<end])
        head = end
        if head == jobs.count || head > 4096 {
            jobs.removeFirst(head)
            head = 0
        }
        return taken
    }
}
