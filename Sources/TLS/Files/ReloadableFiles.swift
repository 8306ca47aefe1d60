import Synchronization

/// A value that is made from files and made anew when they change. The files are asked by ``reload()``, which the agent calls
/// now and then: every few seconds, and at a reload of the configuration.
///
/// Broken files never take a working value away.
package final class ReloadableFiles<Value: Sendable>: Sendable {
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
    package static func reading(
        _ paths: [String], load: @escaping @Sendable () throws(TLSFileError) -> Value
    ) throws(TLSFileError) -> ReloadableFiles {
        // Before reading: what changes while it is read is seen next time.
        let stamps = FileStamp.all(paths)
        return ReloadableFiles(paths: paths, stamps: stamps, value: try load(), load: load)
    }

    /// Does not throw: Swift 6.3 crashes when it optimises the way out of an initialiser past a `Mutex`.
    private init(paths: [String], stamps: [FileStamp?], value: Value, load: @escaping @Sendable () throws(TLSFileError) -> Value) {
        self.paths = paths
        self.load = load
        state = Mutex(State(value: value, stamps: stamps, failure: nil))
    }

    package var current: Value { state.withLock { $0.value } }

    /// What is wrong with the files as they are now, while ``current`` is from before; nil if all is well.
    package var failure: TLSFileError? { state.withLock { $0.failure } }

    /// Reads the files if they have changed. Blocks while it reads: not for event loops.
    ///
    /// - Parameter always: also when they look the same.
    /// - Returns: whether ``current`` is another value now.
    /// - Throws: what is wrong with them, once for every change; the value stays.
    package func reload(always: Bool = false) throws(TLSFileError) -> Bool {
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

extension ReloadableFiles where Value == [Certificate] {
    /// The certificates of several PEM files: roots, pins.
    package static func certificates(_ paths: [String]) throws(TLSFileError) -> ReloadableFiles<[Certificate]> {
        try .reading(paths) { () throws(TLSFileError) in
            var all: [Certificate] = []
            for path in paths { all += try CertificateFile.read(path) }
            return all
        }
    }
}

/// Files with certificates only.
package enum CertificateFile {
    /// All certificates of a PEM file, or the one of a DER file.
    package static func read(_ path: String) throws(TLSFileError) -> [Certificate] {
        let bytes = try TLSFile.read(path, .certificates)
        return try bytes.withBytes { buffer throws(TLSFileError) in try Certificate.readPEM(buffer, path: path) }
    }
}
