// The processes of cluster mode, for pm2: `npm run cluster`. Settings such as DATABASE_URL come from the
// environment, and so do the numbers of processes: WEB_INSTANCES (default max, one for each core) and
// WORKER_INSTANCES (default 1). Each process shows health and metrics on a port of its own: METRICS_PORT
// (9464) plus its number, and 100 more for workers.
import { join } from "node:path";

const root = import.meta.dirname;

const metricsPort = Number(process.env.METRICS_PORT || 9464);

const common = {
  cwd: root,
  // Ready when the process says so; stopping waits for what it has in hand.
  wait_ready: true,
  listen_timeout: 60_000,
  kill_timeout: 35_000 + Number(process.env.SHUTDOWN_DELAY_MS || 0),
  exp_backoff_restart_delay: 100,
  // pm2's own agent inside the process would hide unhandled rejections.
  pmx: false,
  merge_logs: true,
};

const web = {
  ...common,
  name: "laurel-web",
  // All of them share one port. Any of them takes any socket, and passes it on to the one that has the room.
  exec_mode: "cluster",
  instances: process.env.WEB_INSTANCES || "max",
  script: join(root, "scripts/entry.mjs"),
  args: "serve",
  env: { MODE: "cluster", ROLES: "web", METRICS_PORT: metricsPort },
};

const worker = {
  ...common,
  name: "laurel-worker",
  exec_mode: "fork",
  instances: process.env.WORKER_INSTANCES || 1,
  interpreter: join(root, "node_modules/.bin/node"),
  script: join(root, "src/main.ts"),
  args: "worker",
  env: { MODE: "cluster", ROLES: "worker", METRICS_PORT: metricsPort + 100 },
};

const config = { apps: [web, worker] };

// pm2 reads its configuration with require().
export { config as "module.exports" };
