import Synchronization

/// A value that is made from files and made anew when they change. The files are asked by ``reload()``, which the agent calls
/// now and then: every few seconds, and at a reload of the configuration.
///
/// Broken files never take a working value away.
public final class ReloadableFiles<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var stamps: [FileStamp?]
        var failure: TLSFileError?
    }

    private let paths: [String]
    private let load: @Sendable () throws(TLSFileError) -> Value
    private let state: Mutex<State>
    /// One reload at a time.
    private let reloading = Mutex(())

    /// Reads the files for the first time.
    public init(paths: [String], load: @escaping @Sendable () throws(TLSFileError) -> Value) throws(TLSFileError) {
        // Before reading: what changes while it is read is seen next time.
        let stamps = FileStamp.all(paths)
        self.paths = paths
        self.load = load
        state = Mutex(State(value: try load(), stamps: stamps, failure: nil))
    }

    public var current: Value { state.withLock { $0.value } }

    /// What is wrong with the files as they are now, while ``current`` is from before; nil if all is well.
    public var failure: TLSFileError? { state.withLock { $0.failure } }

    /// Reads the files if they have changed. Blocks while it reads: not for event loops.
    ///
    /// - Parameter always: also when they look the same.
    /// - Returns: whether ``current`` is another value now.
    /// - Throws: what is wrong with them, once for every change; the value stays.
    public func reload(always: Bool = false) throws(TLSFileError) -> Bool {
        let outcome = reloading.withLock { _ -> Result<Bool, TLSFileError> in
            let stamps = FileStamp.all(paths)
            guard always || state.withLock({ $0.stamps != stamps }) else { return .success(false) }
            do throws(TLSFileError) {
                let value = try load()
                state.withLock { $0 = State(value: value, stamps: stamps, failure: nil) }
                return .success(true)
            } catch {
                state.withLock { state in
                    state.stamps = stamps
                    state.failure = error
                }
                return .failure(error)
            }
        }
        return try outcome.get()
    }
}

/// Looks for changes again and again until the task is cancelled.
public enum FileWatch {
    /// Seconds between two looks at the files: a `stat` each, so that nothing is lost on file systems that notify nobody, and
    /// soon enough for tools that replace a certificate hours before it ends.
    public static let seconds: Int64 = 5

    static func run<E: Error>(every pause: Duration, _ reload: () throws(E) -> Bool, _ tell: (Result<Void, E>) async -> Void) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: pause)
            guard !Task.isCancelled else { return }
            do throws(E) {
                if try reload() { await tell(.success(())) }
            } catch { await tell(.failure(error)) }
        }
    }
}

extension ReloadableFiles {
    /// Reloads when the files change, until the task is cancelled.
    ///
    /// - Parameter tell: called when ``current`` is another value, and with what is wrong where a change cannot be used.
    public func watch(
        every pause: Duration = .seconds(FileWatch.seconds), _ tell: @Sendable (Result<Void, TLSFileError>) async -> Void
    ) async {
        await FileWatch.run(every: pause, { () throws(TLSFileError) in try reload() }, tell)
    }
}

extension ReloadableFiles where Value == [Certificate] {
    /// The certificates of several PEM files: roots, pins.
    public static func certificates(_ paths: [String]) throws(TLSFileError) -> ReloadableFiles<[Certificate]> {
        try ReloadableFiles(paths: paths) { () throws(TLSFileError) in
            var all: [Certificate] = []
            for path in paths { all += try CertificateFile.read(path) }
            return all
        }
    }
}

/// Files with certificates only.
public enum CertificateFile {
    /// All certificates of a PEM file, or the one of a DER file.
    public static func read(_ path: String) throws(TLSFileError) -> [Certificate] {
        let bytes = try TLSFile.read(path, .certificates)
        return try bytes.withBytes { buffer throws(TLSFileError) in try Certificate.readPEM(buffer, path: path) }
    }
}
