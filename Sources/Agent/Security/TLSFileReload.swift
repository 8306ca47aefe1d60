import Logging
import TLS

/// Takes in the files of one setting by themselves: those of another that are broken do not keep them out of force.
enum TLSFileReload {
    /// - Parameter setting: names the files in the log.
    /// - Returns: whether the setting stands for something else now.
    static func run(_ setting: String, _ logger: Logger, _ reload: () throws(TLSFileError) -> Bool?) -> Bool {
        do throws(TLSFileError) { return try reload() ?? false } catch {
            logger.error("TLS goes on as before: \(setting): \(error)")
            return false
        }
    }
}
