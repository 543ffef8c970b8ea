import { Anchor, Button, Group, Text, UnstyledButton, useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { compact, number } from "../format.ts";
import { PlainTable } from "./table.tsx";

type Series = { name: string; values: (number | null)[] };
const COLOURS = ["#0c8599", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#1864ab", "#a17a00", "#495057"];

type ChartProps = { name: string; labels: string[]; series: Series[]; height?: number; isPercent?: boolean };

/**
 * Lines over days. The x axis counts points and is labelled by the dates of the API: a time scale would show the
 * reader's zone, not the project's. The numbers can be read as a table, too.
 */
export const Chart = ({ name, labels, series, height = 260, isPercent = false }: ChartProps) => {
  const box = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  const [isTable, setTable] = useState(false);
  const key = JSON.stringify([labels, series]);
  useEffect(() => {
    const element = box.current;
    if (!element || isTable) return;
    const ink = scheme === "dark" ? "#a6a7ab" : "#495057";
    const grid = { stroke: scheme === "dark" ? "#3b3b3b" : "#e9ecef", width: 1 };
    const show = (value: number) => (isPercent ? `${Math.round(value * 100)} %` : compact(value));
    const plot = new uPlot(
      {
        width: element.clientWidth || 600,
        height,
        legend: { show: false },
        scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [
          {
            stroke: ink,
            grid,
            values: (_plot, at) => at.map((x) => (Number.isInteger(x) ? (labels[x] ?? "") : "")),
          },
          { stroke: ink, grid, values: (_plot, at) => at.map(show), size: 60 },
        ],
        series: [
          { label: "x" },
          ...series.map(({ name: label }, index) => ({
            label,
            stroke: COLOURS[index % COLOURS.length]!,
            width: 2,
            points: { show: labels.length < 40 },
          })),
        ],
      },
      [labels.map((_, index) => index), ...series.map(({ values }) => values)],
      element,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [key, scheme, isTable, height, isPercent]);
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Group gap="md">
          {series.map(({ name: label, values }, index) => (
            <Text key={label} component="span">
              <span className="dot" style={{ background: COLOURS[index % COLOURS.length] }} />
              {label} <b>{number(values.findLast((value) => value != null))}</b>
            </Text>
          ))}
        </Group>
        <Button variant="subtle" size="compact-xs" onClick={() => setTable(!isTable)}>
          {isTable ? "Show the chart" : "Show numbers"}
        </Button>
      </Group>
      {isTable ? (
        <PlainTable
          name={name}
          rows={labels.map((_label, index) => index)}
          keyOf={(index) => labels[index]!}
          columns={{
            Date: (index: number) => labels[index],
            ...Object.fromEntries(
              series.map((one) => [one.name, (index: number) => one.values[index] ?? null]),
            ),
          }}
        />
      ) : (
        <div ref={box} role="img" aria-label={`Chart: ${name}`} />
      )}
    </div>
  );
};

type Bar = { name: string; value: number; note?: string; onClick?: () => void };

/** Parts of a whole, one below another, as bars. */
export const Bars = ({ rows }: { rows: Bar[] }) => {
  const most = Math.max(1, ...rows.map(({ value }) => value));
  return (
    <div role="list">
      {rows.map(({ name, value, note, onClick }, index) => (
        <div role="listitem" key={`${name} ${index}`} style={{ marginBottom: 8 }}>
          <Group justify="space-between">
            {onClick ? (
              <Anchor component="button" type="button" size="sm" onClick={onClick}>
                {name}
              </Anchor>
            ) : (
              <Text>{name}</Text>
            )}
            <Text>
              {number(value)} {note && <Text span c="dimmed" size="xs">{`  ${note}`}</Text>}
            </Text>
          </Group>
          <div style={{ height: 14, background: "var(--mantine-color-default-border)", borderRadius: 3 }}>
            <div className="bar" style={{ width: `${(100 * value) / most}%` }} />
          </div>
        </div>
      ))}
    </div>
  );
};

/** A share from 0 to 1 as a colour whose text stays readable. */
const heatStyle = (share: number, isDark: boolean): React.CSSProperties => {
  if (share > 0.7) return { background: "var(--mantine-color-teal-9)", color: "#fff" };
  const tint = Math.round(5 + share * 55);
  return {
    background: `color-mix(in srgb, var(--mantine-color-teal-${isDark ? 9 : 5}) ${tint}%, transparent)`,
    color: isDark ? "#fff" : "#000",
  };
};

type Cell = { share: number; text: string; isComplete: boolean };
type HeatRow = { label: string; size: number; cells: (Cell | undefined)[] };
type HeatProps = {
  name: string;
  /** Over the first column. */
  first: string;
  /** Not numbers alone: an object has those first. */
  columns: string[];
  rows: HeatRow[];
  onCell?: (row: number, column: number) => void;
};

/** Numbers as a table whose colours show at a glance where they are high; what is not over yet is in italics. */
export const HeatTable = ({ name, first, columns, rows, onCell }: HeatProps) => {
  const isDark = useComputedColorScheme("light") === "dark";
  const cellAt = (column: number) => (row: HeatRow) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const fontStyle = cell.isComplete ? "normal" : "italic";
    const shown = {
      className: "heat",
      style: { ...heatStyle(cell.share, isDark), fontStyle },
      children: cell.text,
    };
    return onCell ? (
      <UnstyledButton {...shown} onClick={() => onCell(rows.indexOf(row), column)} />
    ) : (
      <div {...shown} />
    );
  };
  const cells = Object.fromEntries(columns.map((title, column) => [title, cellAt(column)]));
  return (
    <PlainTable
      name={name}
      rows={rows}
      keyOf={({ label }) => label}
      columns={{ [first]: "label", Players: "size", ...cells }}
      right={columns}
    />
  );
};
