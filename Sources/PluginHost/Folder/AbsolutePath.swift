import Glibc

enum AbsolutePath {
    /// The path from the root without following links; "." and doubled slashes go, ".." stays because behind a link it is not the folder above.
    static func make(_ path: String) -> String {
        var whole = path
        if path.utf8.first != UInt8(ascii: "/"), let current = getcwd(nil, 0) {
            whole = String(cString: current) + "/" + path
            free(current)
        }
        return "/" + whole.split(separator: "/", omittingEmptySubsequences: true).filter { $0 != "." }.joined(separator: "/")
    }
}
