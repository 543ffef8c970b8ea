import assert from "node:assert/strict";
import type { App } from "../../src/app.ts";
import { exportConfig } from "../../src/domain/registries/configuration/diff.ts";
import { simulate, Simulation } from "../../src/domain/rules/insight/simulate.ts";
import { graphOfLinked, loadGraph } from "../../src/domain/economy/loops/graph.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { validateRule } from "../../src/domain/rules/lifecycle/validate.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";
import { addLargeRules, aLargeRule, rewriteVersions } from "../support/rules/many-rules.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const RULES = 1_000;

/** Reads and answers, as an operation does. */
const answered = async (app: App, read: (work: Work) => Promise<object>): Promise<void> => {
  JSON.stringify(await app.transact(read));
};

describe("CPU of a project of a thousand rules of 9 KB", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    await addLargeRules(api.app.transact, tenant.projectId, RULES);
  });

  /** Each time with nothing of the rules kept in the process. */
  const isInSlices = async (read: (work: Work) => Promise<object>): Promise<void> => {
    const run = async (): Promise<void> => {
      await rewriteVersions(api.app.transact, tenant.projectId);
      await answered(api.app, read);
    };
    const blockMs = await leastBlockMs(run, BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  };

  it("is spent in slices on publishing one", () =>
    isInSlices((work) => publishRule(work, tenant.projectId, "r1", { publishedBy: "test" })));

  it("is spent in slices on checking one", () =>
    isInSlices((work) => validateRule(work, tenant.projectId, aLargeRule("another"))));

  it("is spent in slices on the graph", () =>
    isInSlices(async (work) => graphOfLinked(await loadGraph(work, tenant.projectId))));

  it("is spent in slices on an export", () => isInSlices((work) => exportConfig(work, tenant.projectId)));

  it("is spent in slices on a simulation", () => {
    const event = { eventType: "goal", properties: { kind: "none" } };
    const simulation = Simulation.parse({ event, player: { snapshot: {} } });
    return isInSlices((work) => simulate(work, tenant.projectId, simulation));
  });

  it("changes nothing of a long answer: the length is told, and each rule is there once", async () => {
    const exported = must(await api.get("/api/v1/config/export", { key: tenant.key }), 200);
    assert.equal(exported.rules.length, RULES);
    const direct = await api.app.transact((work) => exportConfig(work, tenant.projectId));
    assert.deepEqual(exported, JSON.parse(JSON.stringify(direct)));
    const response = await fetch(`${api.url}/api/v1/config/export`, {
      headers: { "X-API-Key": tenant.key, "Accept-Encoding": "identity" },
    });
    const text = await response.text();
    assert.equal(response.headers.get("content-length"), String(Buffer.byteLength(text)));
    assert.equal(response.headers.get("content-type"), "application/json; charset=utf-8");
    assert.equal(text, JSON.stringify(JSON.parse(text)));
  });
});
