import CTimex
import Environment
import Glibc

/// Facts about the machine and the process.
package enum System {
    package static var coreCount: Int { max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))) }

    /// Whether the clock is synchronised, for example with a time server; false if the system does not say: a sandbox in which the clock may not be set
    /// usually refuses this query as well.
    package static var keepsClock: Bool {
        var facts = timex()
        return isKept(answer: adjtimex(&facts), status: facts.status)
    }

    static func isKept(answer: Int32, status: Int32) -> Bool { answer >= 0 && answer != TIME_ERROR && status & Int32(STA_UNSYNC) == 0 }
}

/// Folders in which the agent keeps its data.
package enum Folders {
    /// Creates a folder and its parents.
    package static func make(_ path: String) throws(AgentError) {
        var built = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/") {
            built += "/\(part)"
            if mkdir(built, 0o700) != 0, errno != EEXIST {
                let reason = "\(String(cString: strerror(errno)))\(built == path ? "" : " at \(built)")"
                let obstacle = ConfigurationCheck.obstacle(toMaking: path)
                let cause = obstacle.flatMap { $0.isCertain ? $0.reason : nil } ?? reason
                throw AgentError(.failed, "cannot make the data folder \(path): \(cause); \(obstacle?.mend ?? ConfigurationCheck.makingData(path))")
            }
        }
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR else {
            throw AgentError(.failed, "the data folder \(path) is not a folder")
        }
    }
}

/// Waits for work, up to a time limit: work that is not finished by then continues in the background.
enum Deadline {
    static func run(seconds: Int, _ time: any TimeSource, _ work: @escaping @Sendable () async -> Void) async {
        await run(nanoseconds: UInt64(seconds) * 1_000_000_000, time, work)
    }

    static func run(nanoseconds: UInt64, _ time: any TimeSource, _ work: @escaping @Sendable () async -> Void) async {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        let worker = Task {
            await work()
            continuation.finish()
        }
        let timer = Task {
            try? await time.sleep(nanoseconds: nanoseconds)
            continuation.finish()
        }
        for await _ in stream {}
        timer.cancel()
        worker.cancel()
    }
}
