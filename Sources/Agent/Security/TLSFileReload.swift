import Logging
import TLS

/// Loads the files of one setting independently: an invalid file of another setting does not hold them back.
enum TLSFileReload {
    /// - Parameter setting: the setting's name in the log.
    /// - Returns: whether what the setting refers to has changed.
    static func run(_ setting: String, _ logger: Logger, _ reload: () throws(TLSFileError) -> Bool?) -> Bool {
        do throws(TLSFileError) { return try reload() ?? false } catch {
            logger.error("TLS goes on as before: \(setting): \(error)")
            return false
        }
    }
}
