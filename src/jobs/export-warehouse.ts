import type { App } from "../app.ts";
import { findDueExports } from "../domain/analytics/warehouse/due.ts";
import {
  closeExport,
  failExport,
  leaveExport,
  LeaseLost,
  openExport,
  registerProjects,
} from "../domain/analytics/warehouse/progress.ts";
import { StoreError, type Warehouse, type WarehouseStore } from "../domain/analytics/warehouse/store.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Job } from "./job.ts";
import { WarehouseFiles } from "./warehouse-files.ts";
import { WarehouseTurn } from "./warehouse-turn.ts";

const EVERY_MS = 15_000;
/** Projects that are looked for at once. */
const PROJECTS_AT_ONCE = 500;

/** Projects that fail by the store before the run ends: it would fail for others, and each takes its time. */
const FAILURES_MAX = 2;

/** What a turn of a project has come to: there is more to write, or not, or the store does not work. */
type TurnResult = "MORE" | "DONE" | "STORE_FAILED";

type GiveBack = typeof failExport | typeof leaveExport;

/** Gives a project back that was not ended; another worker may have it by then. */
const giveBack = async (app: App, turn: WarehouseTurn, how: GiveBack): Promise<void> => {
  if (await app.transact((work) => how(work, turn.export))) return;
  const { projectId } = turn.export;
  try {
    await turn.forsake();
  } catch (err) {
    app.log.warn({ err, projectId }, "a file that was begun is left in the warehouse");
  }
};

const exportProject = async (
  app: App,
  { store, lagMs, signal }: { store: WarehouseStore; lagMs: number; signal: AbortSignal },
  projectId: string,
): Promise<TurnResult> => {
  const opened = await app.transact((work) => openExport(work, projectId, lagMs));
  if (!opened) return "DONE";
  const turn = new WarehouseTurn(app, store, opened, signal);
  try {
    const isMore = await new WarehouseFiles(app, turn, lagMs).write();
    await app.transact((work) => closeExport(work, opened, isMore));
    return isMore ? "MORE" : "DONE";
  } catch (err) {
    if (signal.aborted) {
      await giveBack(app, turn, leaveExport);
      return "DONE";
    }
    if (err instanceof LeaseLost) app.log.warn({ projectId }, err.message);
    else {
      app.metrics.warehouse.failures.inc();
      app.log.error({ err, projectId, store: store.name }, "files for the warehouse could not be written");
    }
    await giveBack(app, turn, failExport);
    return err instanceof StoreError ? "STORE_FAILED" : "DONE";
  }
};

/** Gives projects that are due a turn. @returns whether one has more to write, or others may be due */
const exportDue = async (
  app: App,
  { everyMs, lagMs, store: open }: Warehouse,
  { signal, atOnce }: { signal: AbortSignal; atOnce: number },
): Promise<boolean> => {
  const asked = { everyMs, lagMs, limit: atOnce };
  const due = await app.transact((work) => findDueExports(work, asked));
  if (due.length === 0) return false;
  const store = await open();
  let [isMore, failures] = [due.length === atOnce, 0];
  for (const projectId of due) {
    if (signal.aborted) return false;
    const result = await exportProject(app, { store, lagMs, signal }, projectId);
    if (result === "STORE_FAILED" && ++failures === FAILURES_MAX) return false;
    isMore ||= result === "MORE";
    await app.limits.pause?.();
  }
  return isMore;
};

/**
 * Writes what came since into files for the warehouse, where there is one, for all projects that are due, of
 * which it looks for `atOnce` at a time. A process that stops gives its
 * project back at once, whatever the store is doing.
 */
export const createExportWarehouse = (atOnce = PROJECTS_AT_ONCE): Job => {
  const stopping = new AbortController();
  const { signal } = stopping;
  return {
    timeouts: STEP,
    concurrency: 1,
    everyMs: EVERY_MS,
    stop: () => stopping.abort(),
    run: async (app) => {
      const { warehouse } = app;
      if (!warehouse || signal.aborted) return;
      await app.transact(registerProjects);
      while (await exportDue(app, warehouse, { signal, atOnce }));
    },
  };
};
