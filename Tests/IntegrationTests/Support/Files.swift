import Glibc
import TestSupport

extension TemporaryFolder {
    static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }
}
