import Glibc

package enum AbsolutePath {
    /// The absolute path, without following links; "." and doubled slashes are removed, but ".." is kept, because after a link it does not lead
    /// to the preceding folder.
    package static func make(_ path: String) -> String {
        var whole = path
        if path.utf8.first != UInt8(ascii: "/"), let current = getcwd(nil, 0) {
            whole = String(cString: current) + "/" + path
            free(current)
        }
        return "/" + whole.split(separator: "/", omittingEmptySubsequences: true).filter { $0 != "." }.joined(separator: "/")
    }
}
