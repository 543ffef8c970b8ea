import {
  ActionIcon,
  Button,
  Group,
  Pagination,
  ScrollArea,
  Select,
  Skeleton,
  Table,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { Fragment, type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { callAny, type Id, type Row, saveFile } from "../api/client.ts";
import { type Filter, resolve, useForms } from "../api/forms.ts";
import { tellError, useAny } from "../api/hooks.ts";
import { number, words } from "../format.ts";
import { type Filters, useFilters } from "./filters.ts";
import { Icon } from "./icons.tsx";
import { Empty, ErrorNote } from "./page.tsx";

export type Column<T> = {
  title: string;
  cell: (row: T) => ReactNode;
  /** Stands right, as numbers do. */
  isNumber?: boolean;
  /** Left out on a phone. */
  isWideOnly?: boolean;
};

type PlainProps<T> = {
  name: string;
  rows: T[];
  columns: Column<T>[];
  keyOf?: (row: T, index: number) => string;
  onRow?: (row: T) => void;
  /** Buttons at the end of a row. */
  actions?: (row: T) => ReactNode;
};

const keyOfRow = (row: unknown, index: number): string => {
  const { id, key } = row as { id?: string; key?: string };
  return id ?? key ?? String(index);
};

/** A table of rows that are there. */
export const PlainTable = <T,>({ name, rows, columns, keyOf = keyOfRow, onRow, actions }: PlainProps<T>) => (
  <ScrollArea viewportProps={{ tabIndex: 0, role: "region", "aria-label": name }} type="auto">
    <Table highlightOnHover={onRow !== undefined} aria-label={name}>
      <Table.Thead>
        <Table.Tr>
          {columns.map(({ title, isNumber, isWideOnly }) => (
            <Table.Th key={title} className={classOf(isNumber, isWideOnly)}>
              {title}
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
            className={onRow ? "clickable" : ""}
            {...(onRow
              ? {
                  tabIndex: 0,
                  onClick: () => onRow(row),
                  onKeyDown: (event: React.KeyboardEvent) => {
                    if (event.key === "Enter" && event.target === event.currentTarget) onRow(row);
                  },
                }
              : {})}
          >
            {columns.map(({ title, cell, isNumber, isWideOnly }, column) => (
              <Table.Td
                key={title}
                className={classOf(isNumber, isWideOnly)}
                miw={column === 0 ? 140 : undefined}
              >
                {cell(row) ?? "–"}
              </Table.Td>
            ))}
            {actions && (
              <Table.Td onClick={(event) => event.stopPropagation()}>
                <Group gap={4} justify="flex-end" wrap="nowrap">
                  {actions(row)}
                </Group>
              </Table.Td>
            )}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  </ScrollArea>
);

const classOf = (isNumber = false, isWideOnly = false): string =>
  `${isNumber ? "number" : ""} ${isWideOnly ? "wide-only" : ""}`;

/** Rows in a file that a person saves; more is what exports are for. */
const CSV_ROWS_MAX = 10_000;

const csvCell = (value: unknown): string => {
  const text = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  // A spreadsheet would run a cell that begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csvOf = (rows: Record<string, unknown>[]): string => {
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

type ListProps<I extends Id> = Omit<PlainProps<Row<I>>, "rows"> & {
  /** The operation that lists. */
  id: I;
  path?: object;
  /** What the list is always narrowed down to. */
  query?: Filters;
  /** Names of the operation's parameters that a person may set. */
  filters?: string[];
  defaults?: Filters;
  /** Shown when there is nothing, and nothing is filtered. */
  empty?: ReactNode;
  refetchInterval?: number;
  /** Rows on a page. */
  limit?: number;
};

/** A list of the API with its filters, pages and a file of all of it; the address holds what is chosen. */
export const List = <I extends Id>({
  id,
  path = {},
  query = {},
  filters = [],
  defaults = {},
  empty,
  refetchInterval,
  limit = 25,
  ...table
}: ListProps<I>) => {
  const [chosen, choose] = useFilters(defaults);
  const asked: Filters = { ...query };
  for (const name of [...filters, "page", "cursor"]) if (chosen[name]) asked[name] = chosen[name];
  const answer = useAny(
    id,
    { path, query: { ...asked, limit: String(limit) } },
    refetchInterval ? { refetchInterval } : {},
  );
  const isFiltered = filters.some((name) => chosen[name] && chosen[name] !== defaults[name]);
  const rows: Row<I>[] | undefined = answer.data?.data;
  return (
    <div aria-busy={answer.isFetching}>
      <Group mb="xs" gap="xs" align="flex-end">
        <FilterBar id={id} names={filters} chosen={chosen} choose={choose} />
        {rows && rows.length > 0 && <SaveCsv name={table.name} load={() => readAll(id, path, asked)} />}
      </Group>
      {answer.error && !rows ? (
        <ErrorNote error={answer.error} onRetry={() => void answer.refetch()} />
      ) : !rows ? (
        Array.from({ length: 8 }, (_, index) => <Skeleton key={index} height={22} my={10} />)
      ) : rows.length === 0 ? (
        isFiltered ? (
          <Empty title="Nothing matches">
            <Button
              variant="default"
              size="xs"
              onClick={() => choose(Object.fromEntries(filters.map((name) => [name, ""])))}
            >
              Clear the filters
            </Button>
          </Empty>
        ) : (
          (empty ?? <Empty title="Nothing here yet" />)
        )
      ) : (
        <>
          <PlainTable {...table} rows={rows} />
          <Pages pagination={answer.data.pagination} chosen={chosen} choose={choose} />
        </>
      )}
    </div>
  );
};

export const SaveCsv = ({ name, load }: { name: string; load: () => Promise<Record<string, unknown>[]> }) => {
  const [isBusy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      saveCsv(name.toLowerCase().replaceAll(" ", "-"), await load());
    } catch (error) {
      tellError(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Tooltip label={`Save as CSV, at most ${number(CSV_ROWS_MAX)} rows`}>
      <ActionIcon
        variant="default"
        size="lg"
        onClick={() => void save()}
        loading={isBusy}
        aria-label={`Save ${name} as CSV`}
        ml="auto"
      >
        <Icon name="file" />
      </ActionIcon>
    </Tooltip>
  );
};

type BarProps = { id: Id; names: string[]; chosen: Filters; choose: (change: Filters) => void };

/** The filters of a list, drawn from the parameters of its operation. */
export const FilterBar = ({ id, names, chosen, choose }: BarProps) => {
  const forms = useForms();
  const known = forms?.queries[id] ?? [];
  return names.map((name) => {
    const filter = known.find((one) => one.name === name);
    return (
      <Fragment key={name}>
        <FilterField
          filter={filter ?? { name, schema: {} }}
          options={filter && forms ? resolve(filter.schema, forms).enum : undefined}
          value={chosen[name] ?? ""}
          onChange={(value) => choose({ [name]: value })}
        />
      </Fragment>
    );
  });
};

type FieldProps = {
  filter: Filter;
  options: string[] | undefined;
  value: string;
  onChange: (value: string) => void;
};

const FilterField = ({ filter: { name, schema }, options, value, onChange }: FieldProps) => {
  const [text, setText] = useState(value);
  const [last, setLast] = useState(value);
  if (value !== last) {
    setLast(value);
    setText(value);
  }
  const send = useDebouncedCallback(onChange, 300);
  const label = words(name);
  if (options || schema.type === "boolean")
    return (
      <Select
        label={label}
        data={(options ?? ["true", "false"]).map((one) => ({ value: one, label: words(one) }))}
        value={value === "" ? null : value}
        onChange={(next) => onChange(next ?? "")}
        clearable
        clearButtonProps={{ "aria-label": `Clear ${label}` }}
        placeholder={/^(sort|order)$/.test(name) ? "As usual" : "Any"}
        w={150}
        size="xs"
      />
    );
  const isDate = name === "from" || name === "to";
  return (
    <TextInput
      label={label}
      type={isDate ? "date" : "text"}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        send(event.currentTarget.value);
      }}
      w={isDate ? 140 : 170}
      size="xs"
    />
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
        <Button variant="default" size="xs" disabled={!chosen["cursor"]} onClick={() => history.back()}>
          Previous
        </Button>
        <Button
          variant="default"
          size="xs"
          disabled={!nextCursor}
          onClick={() => choose({ cursor: nextCursor ?? "" })}
        >
          Next
        </Button>
      </Group>
    );
  }
  return (
    <Group mt="sm" justify="space-between">
      <Text size="sm" c="dimmed">
        {number(total)} in all
      </Text>
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

/** Opens a screen by a row. */
export const useOpen = <T,>(to: (row: T) => string): ((row: T) => void) => {
  const [, go] = useLocation();
  return (row) => go(to(row));
};
