import assert from "node:assert/strict";
import { laurel } from "../support/processes/command.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { onTerminal } from "../support/processes/terminal.ts";

describe("laurel migrate down", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let env: Record<string, string>;
  let newest: string;
  before(async () => {
    dir = await temporaryDir();
    env = { DATA_DIR: dir.path, LOG_LEVEL: "error" };
    const { text } = await laurel(["migrate"], env);
    newest = [...text.matchAll(/^up {2}(\S+)$/gm)].at(-1)![1]!;
  });
  after(() => dir.remove());

  const pending = async () => {
    const { text } = await laurel(["migrate", "status"], env);
    return [...text.matchAll(/^pending {2}(\S+)$/gm)].map(([, name]) => name);
  };
  const type = (answer: string) =>
    onTerminal(["migrate", "down"], env, { question: /Take it back\? \[y\/N\]/, answer });

  it("is refused with 2 where nobody can be asked, unless --yes is given", async () => {
    const refused = await laurel(["migrate", "down"], env);
    assert.equal(refused.code, 2, refused.text);
    assert.match(refused.text, /down loses data, and there is no terminal to ask on: --yes/);
    assert.deepEqual(await pending(), []);
    assert.deepEqual(await laurel(["migrate", "down", "--yes"], env), { code: 0, text: `down  ${newest}\n` });
    assert.deepEqual(await pending(), [newest]);
    assert.equal((await laurel(["migrate"], env)).code, 0);
  });

  it("names the migration and what is lost on a terminal, and undoes it after a yes only", async () => {
    for (const answer of ["n\n", "\n", "\u0004"]) {
      const { code, text } = await type(answer);
      assert.equal(code, 1, text);
      assert.match(text, new RegExp(`^This takes ${newest} back\\. The data .* are lost\\.$`, "m"));
      assert.match(text, /nothing was changed/);
    }
    assert.deepEqual(await pending(), []);
    const { code, text } = await type("yes\n");
    assert.equal(code, 0, text);
    assert.ok(text.includes(`down  ${newest}`), text);
    assert.deepEqual(await pending(), [newest]);
  });
});
