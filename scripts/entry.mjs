// Starts a web process in pm2's cluster mode, which takes no TypeScript.
// Node's cluster gives it the arguments of pm2's own command (`start ecosystem.config.js`), which are no
// command of ours.
process.argv.splice(1, process.argv.length, import.meta.filename, "serve");

await import("../src/main.ts");
