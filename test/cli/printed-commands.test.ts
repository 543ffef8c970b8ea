import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { Command } from "commander";
import { addAdminCommand } from "../../src/cli/admin.ts";
import { addAnalyticsCommand } from "../../src/cli/analytics.ts";
import { addConfigCommand } from "../../src/cli/configuration.ts";
import { addDemoCommand } from "../../src/cli/demo.ts";
import { addDoctorCommand } from "../../src/cli/doctor.ts";
import { addImportCommand } from "../../src/cli/import.ts";
import { addListenCommand } from "../../src/cli/listen.ts";
import { addTriggerCommand } from "../../src/cli/trigger.ts";
import { addMigrateCommand } from "../../src/cli/migrate.ts";
import { addOpenapiCommand } from "../../src/cli/openapi.ts";
import { addReconcileCommand } from "../../src/cli/reconcile.ts";
import { blocksOf, commandsOf, root, textOf } from "../support/documents/documents.ts";

const PRINTED = /(?:node bin\/laurel\.mjs|npm run (?=(?:migrate|doctor|openapi)\b))\s*(.*)$/;

/** The command line, without `serve` and `worker`, which take no words. */
const program = new Command("laurel");
for (const add of [
  addAdminCommand,
  addAnalyticsCommand,
  addConfigCommand,
  addDemoCommand,
  addDoctorCommand,
  addImportCommand,
  addListenCommand,
  addMigrateCommand,
  addOpenapiCommand,
  addReconcileCommand,
  addTriggerCommand,
])
  add(program);

/** What a line has that the command line has not. */
const unknownIn = (words: readonly string[]): string[] => {
  let command: Command = program;
  const unknown: string[] = [];
  for (const word of words.filter((one) => one !== "--")) {
    const below = command.commands.find((one) => one.name() === word);
    if (below) command = below;
    else if (word.startsWith("--") && !command.options.some(({ long }) => long === word)) unknown.push(word);
  }
  return command === program ? [words[0] ?? "nothing"] : unknown;
};

describe("the commands that the documents print", () => {
  it("exist, with their options", () => {
    const files = ["README.md", ...globSync("docs/**/*.md", { cwd: root })];
    const lines = files.flatMap((file) =>
      blocksOf(textOf(file))
        .filter(({ info }) => info.startsWith("sh"))
        .flatMap(({ text }) => commandsOf(text).map((line) => ({ file, words: PRINTED.exec(line)?.[1] }))),
    );
    const printed = lines.flatMap(({ file, words }) => (words === undefined ? [] : [{ file, words }]));
    assert.ok(printed.length > 15, `${printed.length} commands`);
    const wrong = printed.flatMap(({ file, words }) =>
      unknownIn(words.split(/\s+/)).map((one) => `${file}: ${words}: ${one}`),
    );
    assert.deepEqual(wrong, []);
  });
});
