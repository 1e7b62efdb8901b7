package page

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
)

// Colours that people with reduced colour vision can also distinguish (Okabe
// and Ito), one for each library in order.
var colours = [...]color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
}

// plotTTL is the lease of the failovers in the picture, one that every library
// permits.
const plotTTL = 3 * time.Second

// Plot writes the distributions of handovers and failovers as SVG.
func Plot(w io.Writer, r *figure.Report) error {
	left, err := distribution(r, "Graceful handover", "milliseconds without a leader", math.Log10, func(res *figure.Result) harness.Samples { return res.Handover })
	if err != nil {
		return err
	}
	left.X.Tick.Marker = decades{}
	// The margin leaves room for the legend beside the curves.
	left.X.Min, left.X.Max = math.Floor(left.X.Min), math.Ceil(left.X.Max+0.5)
	right, err := distribution(r, fmt.Sprintf("Crash failover, TTL %v", plotTTL), "milliseconds since the last renewal", plain, func(res *figure.Result) (s harness.Samples) {
		for _, c := range res.Crashes {
			if c.TTL == plotTTL {
				s = c.Samples
			}
		}
		return s
	})
	if err != nil {
		return err
	}
	const width, height = 24 * vg.Centimeter, 9 * vg.Centimeter
	svg := vgsvg.New(width, height)
	right.X.Min, right.Legend.XOffs = 0, 2*vg.Millimeter // where it is empty
	left.Legend.XOffs = width/2 - 50*vg.Millimeter       // to the right of the curves
	canvas := blank(svg)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 5 * vg.Millimeter}
	for i, p := range []*plot.Plot{left, right} {
		p.Draw(tiles.At(canvas, i, 0))
	}
	return write(w, svg)
}

// blank returns a white canvas.
func blank(svg *vgsvg.Canvas) draw.Canvas {
	canvas := draw.New(svg)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Path())
	return canvas
}

// write writes the picture. A reader without Liberation gets a font of the same
// widths, and not one with serifs.
func write(w io.Writer, svg *vgsvg.Canvas) error {
	var drawn bytes.Buffer
	if _, err := svg.WriteTo(&drawn); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.ReplaceAll(drawn.String(), "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return err
}

// PlotOverlaps writes the longest time with two leaders of each fault, one bar
// for each library, as SVG.
func PlotOverlaps(w io.Writer, r *figure.Report) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text = "Time with two leaders, the longest of each fault's trials", "milliseconds"
	p.Title.Padding = 2 * vg.Millimeter
	faults := r.Ours().Faults
	// From top to bottom as in the tables.
	names := make([]string, len(faults))
	for i := range faults {
		names[len(faults)-1-i], _, _ = strings.Cut(faults[i].Name, " (") // for example, by which signal
		names[len(faults)-1-i] += "   "                                  // for readers with a wider font
	}
	const bar = 5 * vg.Millimeter
	longest := 0.0
	for n, res := range r.Results {
		values, texts := make(plotter.Values, len(faults)), make([]string, len(faults))
		for i := range faults {
			at := len(faults) - 1 - i
			values[at], texts[at] = float64(res.Faults[i].Worst().Both())/float64(time.Millisecond), worst(res.Faults[i])
			longest = max(longest, values[at])
		}
		bars, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colours[n%len(colours)], 0
		bars.Offset = bar * vg.Length(float64(len(r.Results)-1)/2-float64(n))
		p.Add(bars)
		p.Legend.Add(res.Library, bars)
		points := make(plotter.XYs, len(values))
		for i, v := range values {
			points[i] = plotter.XY{X: v, Y: float64(i)}
		}
		labels, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: texts})
		if err != nil {
			return err
		}
		labels.Offset = vg.Point{X: 1.5 * vg.Millimeter, Y: bars.Offset - 1.2*vg.Millimeter}
		p.Add(labels)
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, longest*1.15 // room for the label of the longest
	p.X.Tick.Marker = plot.TickerFunc(func(least, most float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(least, most)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
			}
		}
		return ticks
	})
	// Left: the words begin beside their marks, however wide a reader's font is.
	p.Legend.Top, p.Legend.Left = false, true
	p.Legend.Padding, p.Legend.ThumbnailWidth, p.Legend.XOffs, p.Legend.YOffs = 2*vg.Millimeter, 6*vg.Millimeter, 110*vg.Millimeter, 30*vg.Millimeter
	svg := vgsvg.New(24*vg.Centimeter, 11*vg.Centimeter)
	p.Draw(draw.Crop(blank(svg), 3*vg.Millimeter, -6*vg.Millimeter, 3*vg.Millimeter, -3*vg.Millimeter))
	return write(w, svg)
}

// distribution draws the share of the samples that are at most so long, for
// each library. The scale is applied to milliseconds.
func distribution(r *figure.Report, title, axis string, scale func(float64) float64, of func(*figure.Result) harness.Samples) (*plot.Plot, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} // with the widths of Arial and Helvetica
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, axis, "share of the trials"
	p.Title.Padding = 2 * vg.Millimeter
	p.Y.Min, p.Y.Max = 0, 1
	// Left: the words begin beside their marks, however wide a reader's font
	// is.
	p.Legend.Top, p.Legend.Left = false, true
	p.Legend.Padding, p.Legend.ThumbnailWidth, p.Legend.XOffs, p.Legend.YOffs = 2*vg.Millimeter, 6*vg.Millimeter, -2*vg.Millimeter, 2*vg.Millimeter
	p.Add(plotter.NewGrid())
	for i, res := range r.Results {
		points := steps(of(res).CDF(), scale)
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(2)
		p.Add(line)
		p.Legend.Add(res.Library, line)
	}
	return p, nil
}

// steps are the points of a CDF, with the step up to each.
func steps(cdf []harness.Point, scale func(float64) float64) (xys plotter.XYs) {
	before := 0.0
	for _, p := range cdf {
		x := scale(float64(p.Value) / float64(time.Millisecond))
		xys = append(xys, plotter.XY{X: x, Y: before}, plotter.XY{X: x, Y: p.Share})
		before = p.Share
	}
	return xys
}

func plain(ms float64) float64 { return ms }

// decades are the ticks of an axis of logarithms. (plot.LogScale leaves room
// for an axis' label where it is not.)
type decades struct{}

// Ticks returns one with a label for each power of ten, and eight without
// between two.
func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for d := math.Floor(least); d <= most; d++ {
		ticks = append(ticks, plot.Tick{Value: d, Label: strconv.FormatFloat(math.Pow(10, d), 'f', -1, 64)})
		for i := 2; i < 10 && d < most; i++ {
			ticks = append(ticks, plot.Tick{Value: d + math.Log10(float64(i))})
		}
	}
	return ticks
}
