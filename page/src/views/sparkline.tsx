// A small curve of recent values, the newest at the right.

const WIDTH = 300;
const HEIGHT = 56;
const PADDING = 2;

interface SparklineProps {
  readonly values: readonly number[];
  readonly label: string;
}

export function Sparkline({ values, label }: SparklineProps) {
  const most = Math.max(1, ...values);
  const step = WIDTH / Math.max(60, values.length - 1);
  const start = WIDTH - (values.length - 1) * step;
  const points = values.map((value, index) => [
    (start + index * step).toFixed(1),
    (HEIGHT - PADDING - (value / most) * (HEIGHT - 2 * PADDING)).toFixed(1),
  ]);
  const line = points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${x} ${y}`).join("");
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}; at most ${Math.round(most)}`}
    >
      {points.length > 1 && <path class="area" d={`${line}L${WIDTH} ${HEIGHT}L${start.toFixed(1)} ${HEIGHT}Z`} />}
      <path class="line" d={line} />
    </svg>
  );
}
