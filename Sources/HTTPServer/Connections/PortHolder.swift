/// How an operator finds the program that has an address which is wanted here: the same words wherever that is told.
package enum PortHolder {
    package static func advice(port: Int) -> String { "as root, ss -ltnp 'sport = :\(port)' says which program has it" }

    package static func advice(socket path: String) -> String { "as root, ss -lxp src unix:\(path) says which program has it" }
}
