import assert from "node:assert/strict";
import type { App } from "../../src/app.ts";
import { readConfig } from "../../src/config.ts";
import { createLog, prettyLine } from "../../src/log.ts";
import { eventually } from "../support/eventually.ts";
import { startTinyHttp, tinyApp, type TinyHttp } from "../support/http/tiny-http.ts";

const withHttp = async (parts: Partial<App>, run: (http: TinyHttp) => Promise<void>): Promise<void> => {
  const http = await startTinyHttp([], parts);
  try {
    await run(http);
  } finally {
    await http.close();
  }
};

describe("HTTP pages for operators", () => {
  it("is ready while every dependency answers", () =>
    withHttp({}, async (http) => {
      assert.equal((await http.send("GET", "/health/live")).json.status, "ok");
      const { status, json } = await http.send("GET", "/health/ready");
      assert.equal(status, 200);
      assert.deepEqual(json.checks, [{ name: "database", ok: true }]);
    }));

  it("leads from / to the console, and tells programs where things are", () =>
    withHttp({}, async (http) => {
      const { status, json } = await http.send("GET", "/");
      assert.equal(status, 200);
      for (const path of [json.docs, json.openapi, json.health])
        assert.equal((await http.send("GET", path)).status, 200, path);
      const page = await http.send("GET", "/", { headers: { Accept: "text/html,*/*;q=0.8" } });
      assert.equal(page.status, 302);
      assert.equal(page.headers["location"], "/console");
    }));

  it("is alive but not ready when a dependency fails, and names it", () => {
    const health = async () => [
      { name: "database", ok: true },
      { name: "redis", ok: false, message: "does not answer" },
    ];
    return withHttp({ health }, async (http) => {
      assert.equal((await http.send("GET", "/health/live")).status, 200);
      const { status, json, headers } = await http.send("GET", "/health/ready");
      assert.equal(status, 503);
      assert.equal(headers["retry-after"], "1");
      assert.equal(json.error.code, "SERVICE_UNAVAILABLE");
      assert.deepEqual(json.error.details, [{ field: "redis", message: "does not answer" }]);
    });
  });

  it("is not ready when the check throws or hangs", async () => {
    const broken = async () => {
      throw new Error("password=hunter2");
    };
    const hanging = () => new Promise<never>(() => {});
    for (const health of [broken, hanging]) {
      await withHttp({ health }, async (http) => {
        const answer = await http.send("GET", "/health/ready");
        assert.equal(answer.status, 503);
        assert(!answer.text.includes("hunter2"));
      });
    }
  });

  it("asks the dependencies once for many that ask whether it is ready, and again later", () => {
    let times = 0;
    const health = async () => {
      times += 1;
      return [{ name: "database", ok: true }];
    };
    return withHttp({ health }, async (http) => {
      const paths = Array.from({ length: 30 }, (_, index) => (index % 2 === 0 ? "/health" : "/health/ready"));
      await Promise.all(paths.map((path) => http.send("GET", path)));
      assert(times < 5, `asked ${times} times`);
      const before = times;
      await eventually(async () => {
        await http.send("GET", "/health/ready");
        return times > before;
      });
    });
  });

  it("measures requests by route template and never by address", () =>
    withHttp({}, async (http) => {
      for (const path of ["/health/live", "/nowhere/1", "/nowhere/2"]) await http.send("GET", path);
      const text = await eventually(async () => {
        const page = (await http.send("GET", "/metrics")).text;
        return page.includes('status="4xx"') && page;
      });
      assert.match(text, /laurel_http_requests_total\{method="GET",route="unmatched",status="4xx"\} 2/);
      assert.match(text, /route="\/health\/live",status="2xx"\} 1/);
      assert.match(text, /duration_seconds_count\{group="unmatched",status="4xx"\} 2/);
      assert.match(text, /process_cpu_seconds_total/);
      assert(!text.includes("nowhere"));
    }));
  it("shows metrics to the bearer of METRICS_TOKEN, and without one to nobody in production", async () => {
    const token = "0123456789abcdef";
    await withHttp(
      { config: { ...readConfig({ METRICS_TOKEN: token }), secrets: tinyApp([]).config.secrets } },
      async (http) => {
        assert.equal((await http.send("GET", "/metrics")).status, 401);
        assert.equal(
          (await http.send("GET", "/metrics", { headers: { Authorization: `Bearer ${token}` } })).status,
          200,
        );
      },
    );
    const production = readConfig({
      NODE_ENV: "production",
      PUBLIC_URL: "https://api.example.com",
      EMAIL_MODE: "off",
    });
    await withHttp({ config: { ...production, secrets: tinyApp([]).config.secrets } }, async (http) => {
      assert.equal((await http.send("GET", "/metrics")).status, 404);
    });
  });

  it("serves a reference whose page may load nothing from another host", () =>
    withHttp({}, async (http) => {
      const page = await http.send("GET", "/docs");
      const policy = String(page.headers["content-security-policy"]);
      assert(policy.includes("default-src 'none'") && policy.includes("script-src 'self';"));
      assert(!/https?:/.test(policy));
      const sources = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => String(source));
      for (const source of sources) assert.match(source, /^(\/|data:)/);
      const scripts = sources.filter((source) => source.endsWith(".js"));
      assert.equal(scripts.length, 2);
      for (const script of scripts) {
        const { status, headers } = await http.send("GET", script);
        assert.equal(status, 200);
        assert.match(String(headers["content-type"]), /javascript/);
      }
      assert.match((await http.send("GET", "/docs/start.js")).text, /"telemetry":false/);
    }));
});

describe("log", () => {
  const logged = (fields: object, message = "x"): string => {
    const lines: string[] = [];
    createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) }).info(fields, message);
    return lines.join("");
  };

  it("shows what was thrown that is no Error as text", () => {
    const { err } = JSON.parse(logged({ err: "no connection" })) as Record<string, unknown>;
    assert.deepEqual(err, { type: "string", message: "no connection" });
  });

  it("writes one line for each request, under its id, without the query", () =>
    withHttp({}, async (http) => {
      await http.send("GET", "/nowhere?token=hunter2", { headers: { "X-Request-Id": "request-0001" } });
      const line = await eventually(() => http.lines.find((text) => text.includes("request-0001")));
      const { path, status, method, ip, level } = JSON.parse(line) as Record<string, unknown>;
      assert.deepEqual(
        { path, status, method, ip, level },
        { path: "/nowhere", status: 404, method: "GET", ip: "127.0.0.1", level: "info" },
      );
      assert(!http.lines.join("").includes("hunter2"));
    }));

  it("censors what stands under a secret name, at any depth", () => {
    const names = [
      "authorization",
      "Cookie",
      "set-cookie",
      "x-api-key",
      "apiKey",
      "password",
      "newPassword",
      "token",
    ];
    for (const name of [
      ...names,
      "refreshToken",
      "secret",
      "clientSecret",
      "apiKeyPeppers",
      "jwtPrivateKey",
      "key",
    ]) {
      const value = name === "apiKeyPeppers" ? ["hunter2"] : "hunter2";
      for (const fields of [{ [name]: value }, { a: { b: [{ [name]: value }] } }]) {
        assert(!logged(fields).includes("hunter2"), name);
      }
    }
    const error = Object.assign(new Error("boom"), { request: { headers: { authorization: "hunter2" } } });
    const line = logged({ err: error });
    assert(!line.includes("hunter2") && line.includes("boom") && line.includes("stack"));
  });

  it("keeps API keys, tokens and bearer values out of any text", () => {
    const apiKey = `svc_live_${"aB3".repeat(14)}`;
    const jwt = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    const line = logged({ note: `got ${apiKey}` }, `tried ${apiKey} and ${jwt} and Bearer abc.def`);
    assert(!line.includes(apiKey) && !line.includes(jwt) && !line.includes("abc.def"));
    assert(line.includes(apiKey.slice(0, 17)), "the public prefix stays");
    assert.doesNotThrow(() => JSON.parse(line));
  });

  it("names a command of Redis that failed without its arguments", () => {
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    const failed = (args: string[]) =>
      Object.assign(new Error("ERR wrong"), { command: { name: "set", args }, previousErrors: [{ args }] });
    log.error({ err: failed(["a-name", "hunter2"]) }, "it failed");
    const { err } = JSON.parse(lines[0]!) as { err: { message: string; command: string } };
    assert.deepEqual([err.message, err.command], ["ERR wrong", "set"]);
    assert.ok(!lines[0]!.includes("hunter2"), lines[0]!);
  });

  it("logs cycles and deep values without failing", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    assert.match(logged(cycle), /deep/);
  });

  it("prints a line for people on a terminal", () => {
    const json = {
      level: "warn",
      time: "2026-01-02T03:04:05.678Z",
      pid: 1,
      path: "/x",
      status: 404,
      msg: "request",
    };
    assert.equal(prettyLine(JSON.stringify(json)), "03:04:05.678 WARN  request path=/x status=404\n");
  });
});
