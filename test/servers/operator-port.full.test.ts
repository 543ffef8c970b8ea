import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Running, startServer } from "../../src/cli/serve.ts";
import { createLog } from "../../src/log.ts";
import { aTenant, testConfig } from "../support/app/app.ts";
import { migratedCluster } from "../support/domain/migrated-cluster.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { clientOf, must } from "../support/http/client.ts";

/** Settings under which production shows no metrics on the port of clients. */
const PRODUCTION = { NODE_ENV: "production", PUBLIC_URL: "https://api.example.com", EMAIL_MODE: "off" };
const LINES_MAX = 1_500;

const start = async (env: Record<string, string>): Promise<Running> => {
  const config = testConfig(env);
  return startServer(config, createLog(config), { inMemory: true, cluster: await migratedCluster() });
};

describe("the port of METRICS_PORT", () => {
  it("shows health and metrics of the process and nothing else, in production without a token", async () => {
    const running = await start({ ...PRODUCTION, METRICS_PORT: "0" });
    const own = `http://127.0.0.1:${running.operators!.port}`;
    const api = clientOf(`http://127.0.0.1:${running.address!.port}`);
    try {
      assert.equal((await fetch(`${api.url}/metrics`)).status, 404);
      for (const path of ["/health", "/health/live", "/health/ready", "/metrics"])
        assert.equal((await fetch(own + path)).status, 200, path);
      for (const path of ["/", "/docs", "/openapi.json", "/api/v1/limits", "/matchmake/join/x"])
        assert.equal((await fetch(own + path)).status, 404, path);
    } finally {
      await running.stop();
    }
    await assert.rejects(fetch(`${own}/health`), "a process that has stopped does not listen");
  });

  it("shows queues, refusals, the build, and few lines for requests of many kinds", async () => {
    const running = await start({ METRICS_PORT: "0" });
    const api = clientOf(`http://127.0.0.1:${running.address!.port}`);
    const page = async () => (await fetch(`http://127.0.0.1:${running.operators!.port}/metrics`)).text();
    try {
      const { key, token, projectId } = await aTenant(api);
      await api.post("/api/v1/events?wait=true", { externalUserId: "ada", eventType: "x" }, { key });
      const slow = { name: "Slow", scopes: ["*"], rateLimit: 1 };
      const limited = must(
        await api.post(`/api/v1/projects/${projectId}/api-keys`, slow, { token }),
        201,
      ).key;
      for (let tries = 0; tries < 3; tries++) await api.get("/api/v1/rules", { key: limited });
      const paths = ["players", "rules", "leaderboards", "lobbies", "webhooks", "jobs", "streaks", "badges"];
      for (const path of paths) {
        await api.get(`/api/v1/${path}`, { key });
        await api.get(`/api/v1/${path}/none`, { key });
        await api.get(`/api/v1/${path}`);
      }
      const text = await page();
      assert.match(text, /^laurel_build_info\{version=".+",mode="embedded",roles="web,worker"\} 1$/m);
      assert.match(text, /^laurel_queue_length\{queue="events"\} 0$/m);
      assert.match(text, /^laurel_queue_length\{queue="events_due"\} 0$/m);
      assert.match(text, /^laurel_event_lag_seconds 0$/m);
      assert.match(text, /^laurel_requests_refused_total\{code="RATE_LIMITED",reason="KEY_RATE"\} 2$/m);
      assert.match(text, /^laurel_http_requests_total\{method="GET",route="\/players",status="4xx"\} 1$/m);
      const lines = text.split("\n");
      assert.ok(lines.length < LINES_MAX, `${lines.length} lines`);
      const http = lines.filter((line) => line.startsWith("laurel_http_request_duration_seconds_bucket"));
      assert.ok(http.every((line) => !line.includes("route=")));
    } finally {
      await running.stop();
    }
  });

  it("is opened as soon as the process that had it has gone", async () => {
    const before = createServer((_request, response) => void response.end("before")).listen(0, "127.0.0.1");
    await once(before, "listening");
    const { port } = before.address() as AddressInfo;
    const running = await start({ METRICS_PORT: String(port) });
    try {
      assert.equal(running.operators!.port, port);
      before.closeAllConnections();
      before.close();
      await eventuallyHolds(async () =>
        assert.equal((await fetch(`http://127.0.0.1:${port}/health`)).status, 200),
      );
    } finally {
      await running.stop();
    }
  });
});
