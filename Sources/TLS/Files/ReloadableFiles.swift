import Synchronization

/// A value that is read from files, and read again when they change. The files are checked by ``reload()``, which the agent calls
/// every few seconds, and when the configuration is reloaded.
///
/// Invalid files never replace a valid value.
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
        // Before reading: a change during the read is noticed next time.
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

    /// What is wrong with the files at the moment, while ``current`` is an earlier value; nil if all is well.
    package var failure: TLSFileError? { state.withLock { $0.failure } }

    /// Reads the files if they have changed. Blocks while reading, so it must not be called on event loops.
    ///
    /// - Parameter always: read them even if they look unchanged.
    /// - Returns: whether ``current`` has changed.
    /// - Throws: what is wrong with them, once for every change; the value is kept.
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
    /// The certificates in several PEM files, for example roots or pins.
    package static func certificates(_ paths: [String]) throws(TLSFileError) -> ReloadableFiles<[Certificate]> {
        try .reading(paths) { () throws(TLSFileError) in
            var all: [Certificate] = []
            for path in paths { all += try CertificateFile.read(path) }
            return all
        }
    }
}

/// Files that contain only certificates.
package enum CertificateFile {
    /// All certificates in a PEM file, or the one in a DER file.
    package static func read(_ path: String) throws(TLSFileError) -> [Certificate] {
        let bytes = try TLSFile.read(path, .certificates)
        return try bytes.withBytes { buffer throws(TLSFileError) in try Certificate.readPEM(buffer, path: path) }
    }
}
