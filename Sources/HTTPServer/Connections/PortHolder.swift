/// How an operator finds the program that holds an address needed here: the same words in all messages.
package enum PortHolder {
    package static func advice(port: Int) -> String { "as root, ss -ltnp 'sport = :\(port)' says which program has it" }

    package static func advice(socket path: String) -> String { "as root, ss -lxp src unix:\(path) says which program has it" }
}
