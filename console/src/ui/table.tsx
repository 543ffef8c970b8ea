import { ActionIcon, Group, Pagination, ScrollArea, Stack, Table, Tooltip } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { tellError, useAny, useGo } from "../api/hooks.ts";
import { type Answer, callAny, type Given, type Id, type Row, saveFile } from "../api/client.ts";
import { number, words } from "../format.ts";
import { cellOf, type Columns, textOf } from "./cells.tsx";
import { type Filters, useListFilters } from "./filters.tsx";
import { Icon } from "./icons.tsx";
import { ButtonSize, Dialog, Empty, Hint, Loaded, press, Section } from "./page.tsx";
import { useSending } from "./sending.tsx";

type TableProps<T> = {
  /** What it is called, where neither its part of the screen nor its operation says so. */
  name?: string;
  columns: Columns<T>;
  /** Titles of columns that a phone leaves out. */
  wide?: readonly string[] | undefined;
  /** Titles of columns that stand right, as numbers do by themselves. */
  right?: readonly string[] | undefined;
  keyOf?: (row: T, index: number) => string;
  onRow?: ((row: T) => void) | undefined;
  /** The screen of the project that a row opens. */
  to?: (row: T) => string;
  /** The title of the dialogue that a row opens, and what it shows; false: this row opens none. */
  dialog?: [title: string | ((row: T) => string), show: (row: T, close: () => void) => ReactNode];
  /** Buttons at the end of a row. */
  actions?: ((row: T) => ReactNode) | undefined;
  /** Said when there is nothing, and what to do about it. */
  empty?: string;
  hint?: ReactNode;
  /** The title of the part of a screen that the table is. */
  section?: string;
  /** A button above the table, or beside the title of the part. */
  beside?: ReactNode;
};

type FrameProps = { of: { section?: string; beside?: ReactNode }; children: ReactNode };

/** What is around a table. */
const Frame = ({ of: { section, beside }, children }: FrameProps) => {
  if (section !== undefined)
    return (
      <Section title={section} actions={beside}>
        {children}
      </Section>
    );
  return beside ? (
    <Stack gap="xs">
      <Group justify="flex-end">{beside}</Group>
      {children}
    </Stack>
  ) : (
    children
  );
};

/** Fields that tell a row from others. */
const IDENTITY = /^(id|key|name|slug|network|path|metric|plan|value|version|attempt|\w+Id)$/;

const keyOfRow = (row: unknown, index: number): string => {
  const entries = Object.entries(row as object);
  const found = entries.find(([name]) => name === "id") ?? entries.find(([name]) => IDENTITY.test(name));
  return String(found?.[1] ?? index);
};

type PlainProps<T> = TableProps<T> & { rows: readonly T[] };

/** A table of rows that are there. */
export const PlainTable = <T,>(props: PlainProps<T>) => (
  <Frame of={props}>
    <RowTable {...props} />
  </Frame>
);

const RowTable = <T,>(props: PlainProps<T>) => {
  const {
    name = props.section,
    rows,
    columns,
    wide = [],
    right = [],
    keyOf = keyOfRow,
    onRow,
    to,
    dialog,
    actions,
  } = props;
  const go = useGo();
  const [shown, setShown] = useState<T>();
  const close = () => setShown(undefined);
  const open = onRow ?? (to ? (row: T) => go(to(row)) : dialog && ((row: T) => setShown(() => row)));
  const titles = Object.keys(columns);
  const lines = rows.map((row) => Object.values(columns).map((show) => cellOf(row, show)));
  const classes = titles.map((title, at) => {
    const values = lines.map((line) => line[at]).filter((value) => value != null);
    const isNumber = values.length > 0 && values.every((value) => typeof value === "number");
    return `${isNumber || right.includes(title) ? "number" : ""} ${wide.includes(title) ? "wide-only" : ""}`;
  });
  const content = shown !== undefined && dialog?.[1](shown, close);
  const title = dialog?.[0];
  const heading = typeof title === "function" ? shown !== undefined && title(shown) : title;
  if (rows.length === 0) return <Empty title={props.empty ?? "Nothing here yet"}>{props.hint}</Empty>;
  return (
    <ScrollArea viewportProps={{ tabIndex: 0, role: "region", "aria-label": name }} type="auto">
      <Table highlightOnHover={open !== undefined} aria-label={name}>
        <Table.Thead>
          <Table.Tr>
            {titles.map((text, at) => (
              <Table.Th key={text} className={classes[at]}>
                {text}
              </Table.Th>
            ))}
            {actions && (
              <Table.Th>
                <span className="skip">Actions</span>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row, index) => (
            <Table.Tr
              key={keyOf(row, index)}
              {...(open && {
                className: "clickable",
                tabIndex: 0,
                onClick: () => open(row),
                onKeyDown: (event: React.KeyboardEvent) => {
                  if (event.key === "Enter" && event.target === event.currentTarget) open(row);
                },
              })}
            >
              {lines[index]!.map((value, at) => (
                <Table.Td key={titles[at]} className={classes[at]} miw={at === 0 ? 140 : undefined}>
                  {textOf(value)}
                </Table.Td>
              ))}
              {actions && (
                <Table.Td onClick={(event) => event.stopPropagation()}>
                  <Group gap={4} justify="flex-end" wrap="nowrap">
                    <ButtonSize value="compact-xs">{actions(row)}</ButtonSize>
                  </Group>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {dialog && (
        <Dialog isOpen={!!content} onClose={close} title={heading}>
          {() => content}
        </Dialog>
      )}
    </ScrollArea>
  );
};

/** A row of an answer, which is a list itself or has one. */
type AnyRow<I extends Id> = Answer<I> extends (infer T)[] ? T : Row<I>;

type RowsProps<I extends Id> = TableProps<AnyRow<I>> & {
  id: I;
  given?: Given<I>;
  refetchInterval?: number;
};

/** What a list is called after its operation: listQuestPlayers → Quest players. */
const nameOf = (id: Id): string => words(id.replace(/^list/, ""));

/** All rows that an operation answers. */
export const Rows = <I extends Id>({ id, given = {}, refetchInterval, ...table }: RowsProps<I>) => {
  const answer = useAny(id, given as object, { refetchInterval: refetchInterval ?? false });
  return (
    <Frame of={table}>
      <Loaded query={answer} lines={3}>
        {(found) => (
          <RowTable name={nameOf(id)} {...table} rows={Array.isArray(found) ? found : found.data} />
        )}
      </Loaded>
    </Frame>
  );
};

/** Rows in a file that a person saves; more is what exports are for. */
const CSV_ROWS_MAX = 10_000;

const csvCell = (value: unknown): string => {
  const text = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  // A spreadsheet would run a cell that begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

const csvOf = (rows: Record<string, unknown>[]): string => {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names.map(csvCell), ...rows.map((row) => names.map((name) => csvCell(row[name])))]
    .map((line) => line.join(","))
    .join("\r\n");
};

export const saveCsv = (name: string, rows: Record<string, unknown>[]): void =>
  saveFile(`${name}.csv`, new Blob([csvOf(rows)], { type: "text/csv" }));

const readAll = async (id: Id, path: object, query: Filters): Promise<Record<string, unknown>[]> => {
  const rows: Record<string, unknown>[] = [];
  let at: Filters = {};
  while (rows.length < CSV_ROWS_MAX) {
    const { data, pagination } = await callAny(id, { path, query: { ...query, limit: "100", ...at } });
    rows.push(...data);
    if (pagination?.nextCursor) at = { cursor: pagination.nextCursor };
    else if (pagination?.totalPages > pagination?.page) at = { page: String(pagination.page + 1) };
    else break;
  }
  return rows;
};

export type ListProps<I extends Id> = TableProps<Row<I>> & {
  /** The operation that lists. */
  id: I;
  path?: object;
  /** What the list is always narrowed down to. */
  query?: Filters;
  /** Names of the operation's parameters that a person may set. */
  filters?: string[];
  defaults?: Filters;
  refetchInterval?: number;
  /** Rows on a page. */
  limit?: number;
  /** Before the names of its filters in the address, where another list of the screen has the same. */
  prefix?: string;
};

/** A list of the API with its filters, pages and a file of all of it; the address holds what is chosen. */
export const List = <I extends Id>({
  id,
  path = {},
  query = {},
  filters = [],
  defaults = {},
  refetchInterval,
  limit = 25,
  prefix = "",
  name = nameOf(id),
  ...table
}: ListProps<I>) => {
  const [chosen, choose, bar] = useListFilters(id, filters, defaults, prefix);
  const asked: Filters = { ...query };
  for (const one of [...filters, "page", "cursor"]) if (chosen[one]) asked[one] = chosen[one];
  // A person means all of the last day, a list what is before a moment.
  if (/^\d{4}-\d\d-\d\d$/.test(asked["to"] ?? ""))
    asked["to"] = new Date(Date.parse(asked["to"]!) + 86_400_000).toISOString().slice(0, 10);
  const given = { path, query: { ...asked, limit: String(limit) } };
  const answer = useAny(id, given, { refetchInterval: refetchInterval ?? false });
  const isFiltered = filters.some((one) => chosen[one] && chosen[one] !== defaults[one]);
  const rows: Row<I>[] | undefined = answer.data?.data;
  const clear = () => choose(Object.fromEntries(filters.map((one) => [one, ""])));
  return (
    <Frame of={table}>
      <div aria-busy={answer.isFetching}>
        <Group mb="xs" gap="xs" align="flex-end">
          {bar}
          {rows && rows.length > 0 && <SaveCsv name={name} load={() => readAll(id, path, asked)} />}
        </Group>
        {rows?.length === 0 && isFiltered ? (
          <Empty title="Nothing matches">{press("Clear the filters", clear)}</Empty>
        ) : (
          <Loaded query={answer} lines={8}>
            {({ data, pagination }) => (
              <>
                <RowTable name={name} {...table} rows={data} />
                {data.length > 0 && <Pages pagination={pagination} chosen={chosen} choose={choose} />}
              </>
            )}
          </Loaded>
        )}
      </div>
    </Frame>
  );
};

const SaveCsv = ({ name, load }: { name: string; load: () => Promise<Record<string, unknown>[]> }) => {
  const { isBusy, send } = useSending();
  const save = async () => saveCsv(name.toLowerCase().replaceAll(" ", "-"), await load());
  return (
    <Tooltip label={`Save as CSV, at most ${number(CSV_ROWS_MAX)} rows`}>
      <ActionIcon
        variant="default"
        size="lg"
        onClick={send(() => save().catch(tellError))}
        loading={isBusy}
        aria-label={`Save ${name} as CSV`}
        ml="auto"
      >
        <Icon name="file" />
      </ActionIcon>
    </Tooltip>
  );
};

type Pagination_ = { page?: number; totalPages?: number; total?: number; nextCursor?: string | null };
type PagesProps = { pagination: Pagination_ | undefined; chosen: Filters; choose: (change: Filters) => void };

const Pages = ({ pagination, chosen, choose }: PagesProps) => {
  if (!pagination) return null;
  const { page, totalPages, total, nextCursor } = pagination;
  if (totalPages === undefined || page === undefined) {
    if (!nextCursor && !chosen["cursor"]) return null;
    return (
      <Group mt="sm" gap="xs">
        {press("Previous", () => history.back(), { disabled: !chosen["cursor"] })}
        {press("Next", () => choose({ cursor: nextCursor ?? "" }), { disabled: !nextCursor })}
      </Group>
    );
  }
  return (
    <Group mt="sm" justify="space-between">
      <Hint>{number(total)} in all</Hint>
      {totalPages > 1 && (
        <Pagination
          total={totalPages}
          value={page}
          onChange={(next) => choose({ page: next === 1 ? "" : String(next) })}
          size="sm"
          getControlProps={(control) => ({ "aria-label": `${words(control)} page` })}
        />
      )}
    </Group>
  );
};
