import Glibc

/// The contents of the plugins folder at one moment.
struct FolderScan {
    var sources: [String: PluginSource] = [:]
    /// Plugins whose files cannot be used.
    var refused: [String: PluginProblem] = [:]
    /// Files that look like a mistake.
    var problems: [PluginProblem] = []
    /// Relative paths of the folders that were read; "" for the plugins folder itself.
    var directories: [String] = []
    /// The folder's real path; nil if it cannot be opened, and then `failure` says why.
    var root: String?
    var failure: String?

    /// Reads the folder. All files come from the same folder, even if a link to it is changed meanwhile.
    ///
    /// - Parameters:
    ///   - only: reads only this plugin, and `lib`, whatever else is in the folder; nil for all.
    ///   - seal: the signatures that are required; nil for none.
    static func read(_ folder: String, _ limits: PluginHostLimits, only: String? = nil, seal: PluginSeal? = nil) -> FolderScan {
        var scan = FolderScan()
        do {
            let root = try Descriptor(folder, flags: O_DIRECTORY)
            scan.root = try root.realPath()
            var reader = FolderReader(root: root.number, rootPath: try root.realPath(), limits: limits)
            if let only { reader.readOnly(only) } else { reader.readAll() }
            scan.take(reader)
            scan.readSignatures(seal, at: root.number, try root.realPath())
        } catch {
            scan.root = nil
            scan.failure = "the plugins folder \(folder) cannot be read: \(error.message)"
        }
        return scan
    }

    private mutating func take(_ reader: FolderReader) {
        problems = reader.problems
        directories = reader.directories
        var library: [String: PluginSource.File] = [:]
        for file in reader.library { library[file.module] = file.file }
        for (name, found) in reader.found {
            if found.mains.count > 1 {
                refused[name] = PluginProblem(
                    plugin: name, file: "\(name).lua", message: "there is \(name)/init.lua too: remove one of the two")
            } else if let problem = found.problem {
                refused[name] = problem
            } else if let main = found.mains.first {
                var own: [String: PluginSource.File] = [:]
                for module in found.modules { own[module.module] = module.file }
                let source = PluginSource(name: name, main: main, own: own, library: library, tests: found.tests)
                if source.byteCount > reader.limits.pluginBytes {
                    refused[name] = PluginProblem(
                        plugin: name, file: main.path,
                        message: "its files have \(source.byteCount) bytes, more than plugin bytes = \(reader.limits.pluginBytes)")
                } else {
                    sources[name] = source
                }
            }
        }
        if sources.count > reader.limits.plugins {
            for name in sources.keys.sorted().dropFirst(reader.limits.plugins) {
                refused[name] = PluginProblem(
                    plugin: name, file: sources[name]?.main.path ?? "",
                    message: "there are more than plugins = \(reader.limits.plugins) plugins in the folder")
                sources[name] = nil
            }
        }
    }
}

/// One traversal of the folder.
private struct FolderReader {
    struct Module {
        var module: String
        var file: PluginSource.File
    }
    struct Found {
        var mains: [PluginSource.File] = []
        var modules: [Module] = []
        var tests: PluginSource.File?
        var problem: PluginProblem?
    }

    let root: Int32
    let rootPath: String
    let limits: PluginHostLimits
    var found: [String: Found] = [:]
    var library: [Module] = []
    var problems: [PluginProblem] = []
    var directories: [String] = []
    var fileCount = 0

    init(root: Int32, rootPath: String, limits: PluginHostLimits) {
        self.root = root
        self.rootPath = rootPath
        self.limits = limits
    }

    mutating func readAll() {
        for entry in entries(of: "") {
            if entry.isFolder {
                readFolder(entry.name)
            } else if entry.name.utf8.hasSuffix(".lua") {
                readTopFile(entry.name)
            }
        }
    }

    /// Reads only what belongs to the plugin.
    mutating func readOnly(_ name: String) {
        for file in ["\(name).lua", "\(name).test.lua"] where exists(file) { readTopFile(file) }
        for folder in [name, "lib"] where exists("\(folder)/.") { readFolder(folder) }
    }

    private mutating func readTopFile(_ file: String) {
        if file.utf8.hasSuffix(".d.lua") { return }
        let isTest = file.utf8.hasSuffix(".test.lua")
        let name = String(file.dropLast(isTest ? 9 : 4))
        guard PluginName.isValid(name) else {
            if !isTest {
                problems.append(PluginProblem(file: file, message: "\"\(name)\" cannot be the name of a plugin: \(PluginName.rule)"))
            }
            return
        }
        read(file, for: name) { found, content in
            if isTest { found.tests = content } else { found.mains.append(content) }
        }
    }

    private mutating func readFolder(_ name: String) {
        if name == "lib" {
            readModules(in: "lib", prefix: "", depth: 0, plugin: nil)
            return
        }
        guard exists("\(name)/init.lua") else { return }
        guard PluginName.isValid(name) else {
            problems.append(PluginProblem(file: "\(name)/init.lua", message: "\"\(name)\" cannot be the name of a plugin: \(PluginName.rule)"))
            return
        }
        readModules(in: name, prefix: "", depth: 0, plugin: name)
    }

    /// - Parameter plugin: the plugin whose folder this is; nil for lib.
    private mutating func readModules(in folder: String, prefix: String, depth: Int, plugin: String?) {
        for entry in entries(of: folder) {
            let path = "\(folder)/\(entry.name)"
            if entry.isFolder {
                if depth < limits.folderDepth, PluginName.isModule(entry.name), !entry.name.utf8.contains(UInt8(ascii: ".")) {
                    readModules(in: path, prefix: "\(prefix)\(entry.name).", depth: depth + 1, plugin: plugin)
                }
                continue
            }
            guard entry.name.utf8.hasSuffix(".lua"), !entry.name.utf8.hasSuffix(".d.lua") else { continue }
            if let plugin, depth == 0, entry.name == "init.lua" {
                read(path, for: plugin) { found, content in found.mains.append(content) }
            } else if let plugin, depth == 0, entry.name == "init.test.lua" {
                read(path, for: plugin) { found, content in found.tests = content }
            } else if !entry.name.utf8.hasSuffix(".test.lua") {
                let module = prefix + entry.name.dropLast(4)
                guard PluginName.isModule(module), !entry.name.dropLast(4).utf8.contains(UInt8(ascii: ".")) else { continue }
                if let plugin {
                    read(path, for: plugin) { found, content in found.modules.append(Module(module: module, file: content)) }
                } else {
                    do {
                        library.append(Module(module: module, file: try content(of: path)))
                    } catch {
                        if !error.isMissing { problems.append(PluginProblem(file: path, message: error.message)) }
                    }
                }
            }
        }
    }

    private mutating func read(_ path: String, for plugin: String, _ put: (inout Found, PluginSource.File) -> Void) {
        do {
            let file = try content(of: path)
            put(&found[plugin, default: Found()], file)
        } catch {
            // If it was removed between listing and opening, it counts as removed.
            if !error.isMissing { found[plugin, default: Found()].problem = PluginProblem(plugin: plugin, file: path, message: error.message) }
        }
    }

    private mutating func content(of path: String) throws(FileRefusal) -> PluginSource.File {
        fileCount += 1
        guard fileCount <= limits.files else { throw FileRefusal(message: "there are more than files = \(limits.files) files in the folder") }
        let content = try BoundedFile.read(
            at: root, path, inside: [rootPath], limit: limits.pluginBytes, limitName: "plugin bytes")
        return PluginSource.File(path: path, bytes: content.bytes)
    }

    private func exists(_ path: String) -> Bool { faccessat(root, path, F_OK, 0) == 0 }

    /// Names in a folder, ascending, without hidden files and editors' files; links are followed.
    private mutating func entries(of folder: String) -> [(name: String, isFolder: Bool)] {
        let opened: Int32
        do throws(FileRefusal) {
            let descriptor = try Descriptor(at: root, folder.isEmpty ? "." : folder, flags: O_DIRECTORY)
            let real = try descriptor.realPath()
            guard folder.isEmpty || BoundedFile.lies(real, in: rootPath) else {
                throw FileRefusal(message: "leads out of the plugins folder (to \(real))")
            }
            opened = dup(descriptor.number)
        } catch {
            if !error.isMissing { problems.append(PluginProblem(file: folder, message: error.message)) }
            return []
        }
        guard opened >= 0, let stream = fdopendir(opened) else {
            if opened >= 0 { close(opened) }
            return []
        }
        defer { closedir(stream) }
        directories.append(folder)
        var names: [(name: String, isFolder: Bool)] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            let bytes = name.utf8
            if bytes.first == UInt8(ascii: ".") || bytes.first == UInt8(ascii: "#") || bytes.last == UInt8(ascii: "~") { continue }
            fileCount += 1
            guard fileCount <= limits.files else {
                problems.append(
                    PluginProblem(file: folder, message: "there are more than files = \(limits.files) files in the folder; the rest is ignored"))
                break
            }
            var status = stat()
            guard fstatat(root, folder.isEmpty ? name : "\(folder)/\(name)", &status, 0) == 0 else { continue }
            names.append((name, status.st_mode & S_IFMT == S_IFDIR))
        }
        return names.sorted { $0.name < $1.name }
    }
}

extension String.UTF8View {
    /// Whether the bytes end with this text.
    func hasSuffix(_ text: String) -> Bool { count >= text.utf8.count && suffix(text.utf8.count).elementsEqual(text.utf8) }
}
