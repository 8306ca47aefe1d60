/// How an operator finds the program that holds an address needed here: the same words in all messages.
package enum PortHolder {
    package static func advice(port: Int) -> String { "as root, ss -ltnp 'sport = :\(port)' says which program has it" }

    /// What lets the agent listen on a port that the system refuses to it.
    package static func permission(port: Int) -> String {
        guard (1..<1024).contains(port) else { return "use another port, or allow this one in the machine's security module (SELinux, AppArmor)" }
        return "only root and processes with the capability CAP_NET_BIND_SERVICE may listen on a port below 1024: set AmbientCapabilities= and CapabilityBoundingSet= "
            + "to CAP_NET_BIND_SERVICE in the agent's unit (and PrivateUsers=no), or use a port above 1023"
    }

    package static func advice(socket path: String) -> String { "as root, ss -lxp src unix:\(path) says which program has it" }
}
