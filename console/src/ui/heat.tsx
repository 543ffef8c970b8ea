import { ScrollArea, Table, UnstyledButton, useComputedColorScheme } from "@mantine/core";
import { number } from "../format.ts";
import { heatStyle } from "./chart.tsx";

type Cell = { share: number; text: string; isComplete: boolean };
type Props = {
  name: string;
  /** Over the first column. */
  first: string;
  columns: string[];
  rows: { label: string; size: number; cells: (Cell | undefined)[] }[];
  onCell?: (row: number, column: number) => void;
};

/** Numbers as a table whose colours show at a glance where they are high; what is not over yet is in italics. */
export const HeatTable = ({ name, first, columns, rows, onCell }: Props) => {
  const isDark = useComputedColorScheme("light") === "dark";
  return (
    <ScrollArea viewportProps={{ tabIndex: 0, role: "region", "aria-label": name }} type="auto">
      <Table className="heat" aria-label={name} withTableBorder>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{first}</Table.Th>
            <Table.Th className="number">Players</Table.Th>
            {columns.map((column) => (
              <Table.Th key={column} className="number">
                {column}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ label, size, cells }, row) => (
            <Table.Tr key={label}>
              <Table.Th scope="row">{label}</Table.Th>
              <Table.Td className="number">{number(size)}</Table.Td>
              {columns.map((column, index) => {
                const cell = cells[index];
                return (
                  <Table.Td
                    key={column}
                    className="cell"
                    style={cell && heatStyle(cell.share, isDark)}
                    fs={cell?.isComplete === false ? "italic" : undefined}
                  >
                    {cell &&
                      (onCell ? (
                        <UnstyledButton
                          w="100%"
                          ta="right"
                          fz="inherit"
                          c="inherit"
                          onClick={() => onCell(row, index)}
                        >
                          {cell.text}
                        </UnstyledButton>
                      ) : (
                        cell.text
                      ))}
                  </Table.Td>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
};
