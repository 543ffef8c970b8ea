import type { Logger } from "pino";
import type { Announcer } from "./announcement.ts";

const PROGRESS_EVERY_MS = 2_000;

/** Announces in JSON lines, as the log is where there is no terminal. */
export const createLines = (lines: Logger): Announcer => {
  let progressAtMs = -Infinity;
  return {
    worker: ({ title, ...fields }) => lines.info(fields, title),
    server: ({ title, ...fields }) => {
      const { url } = fields;
      const pages = { docs: `${url}/docs`, openapi: `${url}/openapi.json` };
      lines.info({ ...fields, ...pages, socket: url.replace(/^http/, "ws") }, title);
    },
    demo: (demo) =>
      demo.problem === undefined
        ? lines.info(demo, "the demo has passed its self test")
        : lines.error(demo, "the self test of the demo has failed"),
    failure: (problem) => lines.error({ problem }, "the demo could not be made; the next start tries again"),
    next: () => lines.info("register, then make a project and a key: /docs shows the bodies"),
    note: (text) => lines.warn(text),
    progress: (text) => {
      if (performance.now() - progressAtMs < PROGRESS_EVERY_MS) return;
      progressAtMs = performance.now();
      lines.info(text);
    },
    progressed: () => undefined,
  };
};
