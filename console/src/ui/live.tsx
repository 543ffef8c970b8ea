import { memo, type ReactNode, useState } from "react";
import { cellOf, type Columns, textOf } from "./cells.tsx";

/** Height of a row, in pixels: with rows of one height, which are to be seen follows from how far one has scrolled. */
const ROW = 34;
/** Rows drawn at once: some more than a tall screen has. */
const DRAWN = 30;

type Props<T> = {
  name: string;
  rows: T[];
  /** The same for every render: rows that have not changed are not drawn again. */
  columns: Columns<T>;
  /** Titles of columns that a phone leaves out; the same for every render. */
  wide?: readonly string[];
  onRow: (row: T) => void;
  /** Told whether one sees the newest rows. */
  onTop?: (isTop: boolean) => void;
};

/** A table that changes several times a second: of its rows only those are drawn that can be seen. */
export const LiveTable = <T,>(props: Props<T>) => {
  const { name, rows, columns, wide, onRow, onTop } = props;
  const [first, setFirst] = useState(0);
  const begin = Math.max(0, Math.min(first, rows.length - DRAWN));
  const drawn = rows.slice(begin, begin + DRAWN);
  return (
    <div
      className="live-rows"
      tabIndex={0}
      role="region"
      aria-label={name}
      onScroll={({ currentTarget: { scrollTop } }) => {
        // Ten rows at a time, so that not every pixel is a render.
        setFirst(Math.max(0, Math.floor(scrollTop / ROW / 10) * 10 - 5));
        onTop?.(scrollTop < ROW);
      }}
    >
      <table className="live" aria-label={name} aria-rowcount={rows.length}>
        <thead>
          <tr>
            {Object.entries(columns).map(([title, show]) => (
              <th key={title} className={classOf(rows[0] && cellOf(rows[0], show), wide?.includes(title))}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {begin > 0 && <tr aria-hidden style={{ height: begin * ROW }} />}
          {/* By place, not by row: where all rows change, new text in the same cells costs half of new cells. */}
          {drawn.map((row, place) => (
            <Row key={place} {...{ row, columns, wide, onRow }} />
          ))}
          <tr aria-hidden style={{ height: Math.max(0, rows.length - begin - DRAWN) * ROW }} />
        </tbody>
      </table>
    </div>
  );
};

const classOf = (value: ReactNode, isWideOnly = false): string =>
  `${typeof value === "number" ? "number" : ""} ${isWideOnly ? "wide-only" : ""}`;

type RowProps = Pick<Props<any>, "columns" | "wide" | "onRow"> & { row: any };

const Row = memo(({ row, columns, wide, onRow }: RowProps): ReactNode => (
  <tr
    className="clickable"
    tabIndex={0}
    onClick={() => onRow(row)}
    onKeyDown={(event) => event.key === "Enter" && onRow(row)}
  >
    {Object.entries(columns).map(([title, show]) => {
      const value = cellOf(row, show);
      return (
        <td key={title} className={classOf(value, wide?.includes(title))}>
          {textOf(value)}
        </td>
      );
    })}
  </tr>
));
