import assert from "node:assert/strict";
import { districtViolations, impureEvaluation } from "./support/source/districts.ts";
import { circlesOf, importGraph } from "./support/source/import-graph.ts";
import { importViolations } from "./support/source/import-rules.ts";
import { importsOf, type SourceFile } from "./support/source/source-files.ts";

const file = (path: string, ...lines: string[]): SourceFile => ({ path, text: lines.join("\n") });

describe("imports", () => {
  it("of every form are seen by the reader", () => {
    const text = [
      `import a from "a";`,
      `import type { B } from "b";`,
      `import {\n  type C,\n  c,\n} from "../c.ts";`,
      `import "d";`,
      `export { e } from "./e.ts";`,
      `export type { F } from "f";`,
      `// import g from "g";`,
      `const h = await import("h");`,
      `const text = 'import i from "i"';`,
    ].join("\n");
    const seen = importsOf(text).map((one) => `${one.line} ${one.isTypeOnly ? "type " : ""}${one.specifier}`);
    assert.deepEqual(seen, ["1 a", "2 type b", "3 ../c.ts", "7 d", "8 ./e.ts", "9 type f", "11 h"]);
  });

  it("that break a rule are found, with file, line and rule", () => {
    const found = importViolations([
      file("src/http/a.ts", `import { x } from "../rooms/x.ts";`, `import { App } from "../app.ts";`),
      file("src/rooms/a.ts", `import type { App } from "../app.ts";`, `import { Redis } from "ioredis";`),
      file(
        "src/domain/a.ts",
        `import express from "express";`,
        `import type { Config } from "../config.ts";`,
      ),
      file("src/jobs/a.ts", `import Bull from "bull";`, `import { y } from "./y";`),
      file("src/jobs/b.ts", `import type SMTPPool from "nodemailer/lib/smtp-pool";`),
      file("src/config/a.ts", `import { x } from "../platform/x.ts";`, `import { y } from "../domain/y.ts";`),
      file("src/app.ts", `import type { Job } from "./jobs/job.ts";`, `import { j } from "./jobs/jobs.ts";`),
      file(
        "src/platform/a.ts",
        `import { q } from "../jobs/queue.ts";`,
        `import { j } from "../jobs/jobs.ts";`,
      ),
      file("src/helpers/a.ts", ""),
    ]);
    assert.deepEqual(found, [
      "src/http/a.ts:1 http may not import rooms (src/rooms/x.ts)",
      "src/http/a.ts:2 http may only `import type` from app (src/app.ts)",
      "src/rooms/a.ts:2 only src/platform.ts and src/platform/ import Redis and PGlite",
      "src/domain/a.ts:1 domain may not import express",
      "src/domain/a.ts:2 domain may not import config (src/config.ts)",
      "src/jobs/a.ts:1 only src/jobs/queue.ts imports bull",
      "src/jobs/a.ts:2 imports carry .ts",
      "src/jobs/b.ts:1 only src/platform/ speaks to mail servers, providers, captchas and endpoints",
      "src/config/a.ts:1 config may not import platform (src/platform/x.ts)",
      "src/app.ts:2 app may only `import type` from jobs (src/jobs/jobs.ts)",
      "src/platform/a.ts:2 platform may only `import type` from jobs (src/jobs/jobs.ts)",
      "src/helpers/a.ts:1 belongs to no layer",
    ]);
  });

  it("in circles are found with type imports and without, the largest circle first", () => {
    const files = [
      file("src/a.ts", `import "./b.ts";`),
      file("src/b.ts", `import "./c.ts";\nimport "zod";\nimport "./gone.ts";`),
      file("src/c.ts", `import type { B } from "./b.ts";\nimport "./d.ts";\nimport "./e.ts";`),
      file("src/d.ts", `import type { B } from "./b.ts";`),
      file("src/e.ts", `import "./f.ts";`),
      file("src/f.ts", `import "./e.ts";`),
    ];
    assert.deepEqual(circlesOf(importGraph(files, { types: true })), [
      ["src/b.ts", "src/c.ts", "src/d.ts"],
      ["src/e.ts", "src/f.ts"],
    ]);
    assert.deepEqual(circlesOf(importGraph(files, { types: false })), [["src/e.ts", "src/f.ts"]]);
  });

  it("of the domain that point to a lower district are found, and files without a district", () => {
    const files = [
      file("src/domain/kernel/a.ts", `import type { B } from "../social/chat/b.ts";`),
      file("src/domain/social/chat/b.ts", `import "../../kernel/a.ts";\nimport "../lobbies/c.ts";`),
      file("src/domain/social/lobbies/c.ts", `import "../chat/b.ts";`),
      file("src/domain/stickers/d.ts", ""),
      file("src/domain/e.ts", ""),
      file("src/http/f.ts", `import "../domain/social/chat/b.ts";`),
    ];
    assert.deepEqual(districtViolations(importGraph(files, { types: true })), [
      "src/domain/kernel/a.ts:1 kernel may not import social (src/domain/social/chat/b.ts)",
      "src/domain/stickers/d.ts:1 belongs to no district",
      "src/domain/e.ts:1 belongs to no district",
    ]);
  });

  it("of databases and transactions are found in evaluation, type imports included", () => {
    const lines = [`import { z } from "zod";`, `import { sql } from "kysely";`, `import "../kernel/ids.ts";`];
    const work = `import type { Work } from "../kernel/work.ts";`;
    assert.deepEqual(
      impureEvaluation([
        file("src/domain/evaluation/a.ts", ...lines, work),
        file("src/domain/economy/b.ts", ...lines, work),
      ]),
      [
        "src/domain/evaluation/a.ts:2 evaluation may not import kysely",
        "src/domain/evaluation/a.ts:4 evaluation may not import ../kernel/work.ts",
      ],
    );
  });
});
