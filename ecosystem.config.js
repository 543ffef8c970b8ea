// The processes of cluster mode, for pm2: `npm run cluster`. Settings such as DATABASE_URL come from the
// environment.
import { join } from "node:path";

const root = import.meta.dirname;

const common = {
  cwd: root,
  script: join(root, "src/main.ts"),
  interpreter: join(root, "node_modules/.bin/node"),
  exec_mode: "fork",
  instances: 1,
  // Ready when the process says so; stopping waits for what it has in hand.
  wait_ready: true,
  listen_timeout: 30_000,
  kill_timeout: 35_000,
  exp_backoff_restart_delay: 100,
  // pm2's own agent inside the process would hide unhandled rejections.
  pmx: false,
  merge_logs: true,
};

const config = {
  apps: [
    { ...common, name: "laurel-web", args: "serve", env: { MODE: "cluster", ROLES: "web" } },
    { ...common, name: "laurel-worker", args: "worker", env: { MODE: "cluster", ROLES: "worker" } },
  ],
};

// pm2 reads its configuration with require().
export { config as "module.exports" };
