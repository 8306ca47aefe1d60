import Testing

@testable import Agent

/// What the plugin `password-file` says of a line is the file's fault, not the plugin's.
@Suite("Wrong lines of users files")
struct WrongUserLineTests {
    @Test("the line and its user are found in the plugin's failure")
    func found() {
        let place = "plugin_error: password-file.lua:44: line 12 of the users file, user bob: "
        #expect(WrongUserLine(place + "not a hash: x") == WrongUserLine(line: 12, user: "bob", problem: "not a hash: x"))
        #expect(WrongUserLine(place + "not a hash")?.line == 12)
    }

    @Test("other failures are the plugin's own", arguments: [
        "plugin_timeout: it took too long", "plugin_error: password-file.lua:44: line of the users file, user bob: x",
        "plugin_error: line 3 of the users file, user bob", "",
    ])
    func others(_ failure: String) { #expect(WrongUserLine(failure) == nil) }
}
