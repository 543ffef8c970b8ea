import type * as Pglite from "@electric-sql/pglite";
import type { messages, PGlite, QueryOptions, Results } from "@electric-sql/pglite";
import { MARKS } from "../domain/kernel/statements.ts";
import { isMarked, PlanAge } from "./statements.ts";

/** What is used of the library, which only embedded mode loads. */
type Library = Pick<typeof Pglite, "protocol" | "parse">;
type Message = messages.BackendMessage;

/** A parsed statement: the types of its parameters, and the message that describes its rows. */
type Parsed = { name: string; types: number[]; described: Message[] };

/** How many statements stay prepared: the least recently used one makes room. */
const KEPT_MAX = 300;
/** How many texts are known to have been sent once: only what comes again is kept. */
const SEEN_MAX = 2_000;

const COMMENTS = String.raw`^(?:\s|/\*[^*]*\*/)*`;
/** Statements that have a plan. */
const PLANNED = new RegExp(String.raw`${COMMENTS}(?:select|insert|update|delete|with)\b`, "i");
/** Statements after which prepared ones may give other columns. */
const DEFINES = new RegExp(String.raw`${COMMENTS}(?:create|alter|drop|do)\b`, "i");

const NO_ROWS: Results = { rows: [], fields: [], affectedRows: 0 };

/**
 * Sends each statement of an embedded database in one message, where PGlite takes six, and keeps those
 * prepared that come again: parsing and planning take longer than running one for a few rows. `begin`, and
 * statements that are marked as one message, are sent with the next statement, which throws their errors.
 * Plans are made anew after some seconds, since tables grow. The messages are those of PostgreSQL's extended
 * query protocol: https://www.postgresql.org/docs/17/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY
 */
class Sender {
  readonly #engine: PGlite;
  readonly #library: Library;
  readonly #kept = new Map<string, Parsed>();
  readonly #seen = new Set<string>();
  readonly #plans = new PlanAge();
  /** Names of prepared statements that nobody uses any more. */
  #unused: string[] = [];
  /** Messages of the transaction that are sent with the next one. */
  #ahead: Uint8Array[] = [];
  /** Whether nothing of the transaction was sent, `begin` included, and whether nothing else waits. */
  #isUnsent = false;
  #isEmpty = true;
  /** Whether a statement of the transaction may have changed what prepared ones rest on. */
  #hasDefined = false;
  #names = 0;

  constructor(engine: PGlite, library: Library) {
    this.#engine = engine;
    this.#library = library;
  }

  begin(): void {
    const { query } = this.#library.protocol.serialize;
    this.#ahead = [...(this.#plans.areOld() ? [query("discard plans")] : []), query("begin")];
    [this.#isUnsent, this.#isEmpty, this.#hasDefined] = [true, true, false];
  }

  /** @throws DatabaseError, Error for a transaction of which a statement has failed */
  async commit(): Promise<void> {
    if (this.#isUnsent && this.#isEmpty) return this.#forget();
    const answer = await this.#send([this.#library.protocol.serialize.query("commit")]);
    const isCommitted = answer.some((message) => "text" in message && message.text === "COMMIT");
    if (!isCommitted) throw new Error("A failed transaction was to be committed.");
  }

  async rollback(): Promise<void> {
    const isUnsent = this.#isUnsent;
    this.#forget();
    if (this.#hasDefined) this.#release(this.#kept.size);
    if (!isUnsent) await this.#send([this.#library.protocol.serialize.query("rollback")]);
  }

  /** @throws DatabaseError */
  async query(text: string, values: readonly unknown[] = [], options?: QueryOptions): Promise<Results> {
    if (isMarked(text, MARKS.oneMessage)) {
      this.#ahead.push(this.#library.protocol.serialize.query(text));
      this.#isEmpty = false;
      return NO_ROWS;
    }
    const { parse, protocol } = this.#library;
    const { name, types, described } = this.#known(text) ?? (await this.#parse(text));
    const bound = values.map((value, place) => this.#serialized(value, types[place]));
    const { bind, execute, sync } = protocol.serialize;
    const answer = await this.#send([bind({ statement: name, values: bound }), execute({}), sync()]);
    // What is kept has a plan, and defines nothing.
    if (name === "" && DEFINES.test(text)) {
      this.#hasDefined = true;
      this.#release(this.#kept.size);
    }
    const own = answer.slice(answer.findIndex((message) => message.name === "bindComplete"));
    return parse.parseResults([...described, ...own], this.#engine.parsers, options)[0]!;
  }

  #forget(): void {
    [this.#ahead, this.#isUnsent] = [[], false];
  }

  /** The prepared statement of a text, which is the most recently used one from here on. */
  #known(text: string): Parsed | undefined {
    const known = this.#kept.get(text);
    if (!known) return undefined;
    this.#kept.delete(text);
    this.#kept.set(text, known);
    return known;
  }

  async #parse(text: string): Promise<Parsed> {
    const { parse, protocol } = this.#library;
    const isKept = PLANNED.test(text) && this.#isSeen(text);
    const name = isKept ? `kept_${++this.#names}` : "";
    const { serialize } = protocol;
    const answer = await this.#send([
      serialize.parse({ name, text }),
      serialize.describe({ type: "S", name }),
      serialize.sync(),
    ]);
    const described = answer.filter((message) => message.name === "rowDescription");
    const parsed = { name, types: parse.parseDescribeStatementResults(answer), described };
    if (isKept) this.#keep(text, parsed);
    return parsed;
  }

  #isSeen(text: string): boolean {
    if (this.#seen.delete(text)) return true;
    if (this.#seen.size >= SEEN_MAX) this.#seen.clear();
    this.#seen.add(text);
    return false;
  }

  #keep(text: string, parsed: Parsed): void {
    if (this.#kept.size >= KEPT_MAX) this.#release(1);
    this.#kept.set(text, parsed);
  }

  /** Gives up the `count` least recently used ones. */
  #release(count: number): void {
    for (const [text, { name }] of [...this.#kept].slice(0, count)) {
      this.#kept.delete(text);
      this.#unused.push(name);
    }
  }

  #serialized(value: unknown, type: number | undefined): string | null {
    if (value === null || value === undefined) return null;
    const serializer = type === undefined ? undefined : this.#engine.serializers[type];
    if (serializer) return serializer(value);
    if (typeof value === "string") return value;
    return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
  }

  #send(own: readonly Uint8Array[]): Promise<Message[]> {
    const { close } = this.#library.protocol.serialize;
    const closing = this.#unused.map((name) => close({ type: "S", name }));
    const message = Buffer.concat([...this.#ahead, ...closing, ...own]);
    [this.#ahead, this.#unused, this.#isUnsent] = [[], [], false];
    return this.#engine.execProtocolStream(message, { syncToFs: false });
  }
}

type Transaction = Parameters<Parameters<PGlite["transaction"]>[0]>[0];

/**
 * Makes an engine send its statements as described at `Sender`; of its transactions only `query` is there.
 * Its files are written by the operating system as it goes, so nothing is synchronised at the end.
 */
export const sendInOneMessage = (engine: PGlite, library: Library): void => {
  const sender = new Sender(engine, library);
  const transact = async <T>(run: (tx: Transaction) => Promise<T>): Promise<T> => {
    let isOver = false;
    const query = ((text, values, options) =>
      engine.runExclusive(() => {
        if (isOver) throw new Error("The transaction is over.");
        return sender.query(text, values, options);
      })) as Transaction["query"];
    const end = (how: () => Promise<void>): Promise<void> =>
      engine.runExclusive(() => {
        isOver = true;
        return how();
      });
    sender.begin();
    try {
      const result = await run({ query } as Transaction);
      await end(() => sender.commit());
      return result;
    } catch (error) {
      await end(() => sender.rollback());
      throw error;
    }
  };
  engine.transaction = async (run) => {
    await engine._checkReady();
    return engine._runExclusiveTransaction(() => transact(run));
  };
  engine.query = (async (text, values, options) => {
    await engine._checkReady();
    return engine._runExclusiveTransaction(() =>
      engine.runExclusive(() => sender.query(text, values, options)),
    );
  }) as PGlite["query"];
};
